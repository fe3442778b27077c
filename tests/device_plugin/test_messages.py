"""The hand-made protobuf, against bytes that Google's implementation made of the same message definitions."""

import pytest

from e2e.device_plugin import messages
from e2e.device_plugin.messages import Device, Grant
from e2e.device_plugin.pool import Pool


def test_a_registration():
    expected = b"\n\x07v1beta1\x12\x0brdma-a.sock\x1a\x06rdma/a"
    assert messages.encode_registration("rdma-a.sock", "rdma/a") == expected


def test_a_list_of_devices():
    expected = b"\n\x0c\n\x010\x12\x07Healthy\n\x0e\n\x011\x12\tUnhealthy"
    assert messages.encode_devices([Device("0"), Device("1", healthy=False)]) == expected


def test_an_allocation_answer_with_a_variable_and_a_device_node():
    expected = b"\n2\n\x06\n\x01A\x12\x01b\x1a(\n\x17/dev/infiniband/uverbs0\x12\t/dev/null\x1a\x02rw"
    assert messages.encode_grants([Grant({"/dev/infiniband/uverbs0": "/dev/null"}, {"A": "b"})]) == expected


def test_an_allocation_request_with_a_long_id_and_an_empty_container():
    request = b"\n\xce\x01\n\x010\n\xc8\x01" + b"x" * 200 + b"\n\x00\n\x03\n\x017"
    assert messages.decode_allocation(request) == [["0", "x" * 200], [], ["7"]]


@pytest.mark.parametrize("request_bytes", [b"\x08\x01", b"\n\x05abc"])
def test_bytes_that_are_no_request_are_refused(request_bytes):
    with pytest.raises(ValueError, match="no message of the device plugin API"):
        messages.decode_allocation(request_bytes)


def test_a_shared_unit_opens_every_hca_whatever_its_number():
    pool = Pool("rdma/hca_shared_devices_a", units=8, hcas=2)
    assert list(pool.grant(["5"]).nodes) == [f"/dev/infiniband/{name}" for name in ("rdma_cm", "uverbs0", "uverbs1")]
    assert pool.grant(["5"]) == pool.grant(["0", "1", "2"])


def test_an_exclusive_unit_is_its_own_hca_and_tells_its_address():
    grant = Pool("nvidia.com/hostdev", units=4, exclusive=True).grant(["3", "1"])
    assert list(grant.nodes) == [f"/dev/infiniband/{name}" for name in ("rdma_cm", "uverbs1", "uverbs3")]
    assert grant.environ == {"PCIDEVICE_NVIDIA_COM_HOSTDEV": "5afe:02:00.0,5afe:04:00.0"}


def test_unhealthy_units_stay_listed():
    assert [device.healthy for device in Pool("rdma/a", units=3).devices(frozenset({"1"}))] == [True, False, True]
