"""Who we are to the API server: a pod's service account, else $KUBECONFIG or ~/.kube/config.

One source for our client and for kopf, so that both are the same user.
"""

import os
from dataclasses import dataclass
from typing import Any

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config


class NoCredentialsError(Exception):
    """Neither a service account nor a usable kubeconfig."""


@dataclass(frozen=True, slots=True)
class Connection:
    """What another client needs to be the same user at the same server."""

    server: str
    ca_path: str | None
    certificate_path: str | None
    key_path: str | None
    token: str | None
    insecure: bool


async def load_configuration() -> Any:
    """Configuration of the Kubernetes client; a service account's token is read again from its file as it ages."""
    configuration = Configuration()
    # As kopf: proxies come from the kubeconfig only. A pod's HTTPS_PROXY is meant for the way out of the cluster.
    configuration.client_session_kwargs = {"trust_env": False}
    try:
        if "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ:
            load_incluster_config(client_configuration=configuration)
        else:
            await load_kube_config(os.environ.get("KUBECONFIG"), client_configuration=configuration)
    except (ConfigException, OSError) as error:
        raise NoCredentialsError(f"no way to the API server: {error}; run in a pod or set KUBECONFIG") from error
    return configuration


async def read_connection(configuration: Any) -> Connection:
    token = (await configuration.auth_settings()).get("BearerToken", {}).get("value")
    return Connection(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        certificate_path=configuration.cert_file,
        key_path=configuration.key_file,
        token=str(token).partition(" ")[2].strip() if token else None,
        insecure=not configuration.verify_ssl,
    )
