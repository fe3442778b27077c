"""The cluster's certificate authority, certificates and kubeconfigs, by openssl; valid for 30 days."""

import json
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.shell import run


@dataclass(frozen=True, slots=True)
class Pki:
    """A folder of `<name>.crt` and `<name>.key`, all signed by its own `ca`."""

    folder: Path

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def create(self, *, api_names: str) -> None:
        """Make the authority, the API server's certificate for `api_names` and the service account key."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sign("ca", "/CN=pdserving-cluster")
        self.sign("apiserver", "/CN=kube-apiserver", names=api_names)
        run("openssl", "genrsa", "-out", self.key("sa"), "2048")

    def sign(self, name: str, subject: str, *, names: str = "") -> None:
        """Sign a certificate that serves as client and as server; `names` is an openssl subjectAltName."""
        files = ["-keyout", self.key(name), "-out", self.certificate(name)]
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", subject]
        authority: list[object] = []
        if name != "ca":
            authority = ["-CA", self.certificate("ca"), "-CAkey", self.key("ca")]
            authority += ["-addext", "extendedKeyUsage=clientAuth,serverAuth"]
        alternatives = ["-addext", f"subjectAltName={names}"] if names else []
        run("openssl", "req", "-x509", *key, *authority, *alternatives, *files)

    def kubeconfig(self, path: Path, *, server: str, user: str, groups: tuple[str, ...] = ()) -> Path:
        """Write credentials of `user` for `server` to `path`; the audit log shows the requests under that name."""
        name = f"client-{path.stem}"
        self.sign(name, "".join(f"/O={group}" for group in groups) + f"/CN={user}")
        path.write_text(json.dumps(self.config(name, server), indent=1))
        path.chmod(0o600)
        return path

    def config(self, name: str, server: str) -> dict[str, object]:
        cluster = {"server": server, "certificate-authority": str(self.certificate("ca"))}
        user = {"client-certificate": str(self.certificate(name)), "client-key": str(self.key(name))}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pdserving",
            "clusters": [{"name": "pdserving", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "pdserving", "context": {"cluster": "pdserving", "user": name}}],
        }
