{{/* <release>-operator, without saying pdserving twice. */}}
{{- define "pdserving.name" -}}
{{- if contains "pdserving" .Release.Name -}}
{{- printf "%s-operator" (.Release.Name | trunc 54) -}}
{{- else -}}
{{- printf "%s-pdserving-operator" (.Release.Name | trunc 44) -}}
{{- end -}}
{{- end }}

{{- define "pdserving.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "pdserving.name" .) -}}
{{- end }}

{{- define "pdserving.image" -}}
{{- $repository := required "image.repository is empty: no image is published yet; build images/operator, push it and set --set image.repository=REGISTRY/pdserving" .Values.image.repository -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end }}

{{- define "pdserving.selector" -}}
app.kubernetes.io/name: pdserving
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "pdserving.labels" -}}
{{ include "pdserving.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: pdserving
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
