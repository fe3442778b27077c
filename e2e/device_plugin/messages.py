"""The messages of the kubelet's ``deviceplugin/v1beta1`` API that a plugin needs, as protobuf bytes.

Written by hand: they are five, with strings, flags and nesting only, and generated stubs would need a compiler at
build time. Field numbers are those of ``k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1/api.proto``.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

API: Final = "v1beta1"
LENGTH_DELIMITED: Final = 2


def encode_varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_field(number: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return encode_varint(number << 3 | LENGTH_DELIMITED) + encode_varint(len(data)) + data


def decode_fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message in order; our requests hold no others."""
    at = 0
    while at < len(data):
        tag, at = _decode_varint(data, at)
        length, at = _decode_varint(data, at)
        if tag & 7 != LENGTH_DELIMITED or at + length > len(data):
            raise ValueError(f"no message of the device plugin API: {data!r}")
        yield tag >> 3, data[at : at + length]
        at += length


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while data[at] & 0x80:
        number |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return number | data[at] << shift, at + 1


@dataclass(frozen=True, slots=True)
class Device:
    id: str
    healthy: bool = True

    def encode(self) -> bytes:
        return encode_field(1, self.id) + encode_field(2, "Healthy" if self.healthy else "Unhealthy")


@dataclass(frozen=True, slots=True)
class Grant:
    """What one container gets: device nodes (path in the container -> path on the host) and variables."""

    nodes: Mapping[str, str]
    environ: Mapping[str, str]

    def encode(self) -> bytes:
        environ = (encode_field(1, encode_field(1, k) + encode_field(2, v)) for k, v in self.environ.items())
        nodes = (encode_field(3, _device_spec(inside, outside)) for inside, outside in self.nodes.items())
        return b"".join((*environ, *nodes))


def _device_spec(inside: str, outside: str) -> bytes:
    return encode_field(1, inside) + encode_field(2, outside) + encode_field(3, "rw")


def encode_registration(endpoint: str, resource: str) -> bytes:
    return encode_field(1, API) + encode_field(2, endpoint) + encode_field(3, resource)


def encode_devices(devices: Iterable[Device]) -> bytes:
    return b"".join(encode_field(1, device.encode()) for device in devices)


def encode_grants(grants: Iterable[Grant]) -> bytes:
    return b"".join(encode_field(1, grant.encode()) for grant in grants)


def decode_allocation(request: bytes) -> list[list[str]]:
    """Device ids by container."""
    containers = (container for number, container in decode_fields(request) if number == 1)
    return [[value.decode() for number, value in decode_fields(container) if number == 1] for container in containers]
