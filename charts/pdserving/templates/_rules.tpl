{{/*
What the operator does to groups and their objects. The e2e suite compares this list with the API server's audit log:
a right that is never used fails it.
*/}}
{{- define "pdserving.rules" -}}
- apiGroups: [pdserving.dev]
  resources: [pdservinggroups]
  verbs: [list, watch]
- apiGroups: [pdserving.dev]
  resources: [pdservinggroups/status]
  verbs: [patch]
# Server-side apply of an object that does not exist yet asks for create besides patch.
- apiGroups: [apps]
  resources: [statefulsets, deployments]
  verbs: [list, watch, create, patch]
# Those of a lane that another has replaced. All else ends with its group, by the garbage collector.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [delete]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, watch, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [list, watch, create, patch]
# `get` is never used: the proxy's Role contains it, and nobody may grant a right that he does not hold.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
# The last lines of a crashed engine, for its condition.
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create, patch]
{{- end }}
