"""What naming HCAs, counting devices and fixing a GID index change in the verdicts."""

from pdserving.preflight.result import Status


def test_an_unknown_hca_name_fails_and_lists_the_real_ones(examined):
    check = examined("roce-v2", PDSERVING_PREFLIGHT_HCAS="mlx5_0,mlx5_7")["hca"]
    assert (check.status, check.value) == (Status.FAIL, "no mlx5_7; there are mlx5_0, mlx5_1")


def test_naming_one_link_layer_cures_a_mixed_pod(examined):
    assert examined("mixed", PDSERVING_PREFLIGHT_HCAS="mlx5_1").named(Status.FAIL) == []


def test_a_named_hca_must_work_where_any_one_would_do_otherwise(examined):
    check = examined("port-down", PDSERVING_PREFLIGHT_HCAS="mlx5_0,mlx5_1")["port-state"]
    assert (check.status, check.value) == (Status.FAIL, "mlx5_0 DOWN (Disabled); mlx5_1 ACTIVE")


def test_a_named_hca_must_be_granted(examined):
    check = examined("sriov-vf", PDSERVING_PREFLIGHT_HCAS="mlx5_0,mlx5_2")["uverbs"]
    assert check.status is Status.FAIL
    assert check.value == "mlx5_0: Operation not permitted"


def test_hcas_of_other_pods_are_seen_but_not_counted(examined):
    verdicts = examined("sriov-vf", PDSERVING_PREFLIGHT_DEVICES="1", PCIDEVICE_NVIDIA_COM_VF="0000:1a:00.2")
    assert verdicts["device-count"].status is Status.PASS
    assert verdicts["uverbs"].value == "uverbs2 (mlx5_2) of 3 HCAs in sysfs"


def test_fewer_devices_than_asked_for_fail(examined):
    check = examined("sriov-vf", PDSERVING_PREFLIGHT_DEVICES="2")["device-count"]
    assert (check.status, check.value, check.expected) == (Status.FAIL, "1 usable", "2")


def test_a_plugins_pci_address_without_an_hca_is_named(examined):
    check = examined("sriov-vf", PCIDEVICE_NVIDIA_COM_VF="0000:1a:00.3")["device-count"]
    assert check.status is Status.FAIL
    assert "no HCA at 0000:1a:00.3" in check.value


def test_a_fixed_gid_index_must_be_roce_v2_and_filled(examined):
    assert examined("roce-v2", MC_GID_INDEX="3")["gid"].value.startswith("mlx5_0 3=192.168.10.4 (RoCE v2)")


def test_a_fixed_gid_index_of_roce_v1_fails(examined):
    check = examined("roce-v2", MC_GID_INDEX="2")["gid"]
    assert check.status is Status.FAIL
    assert "mlx5_0 2=192.168.10.4 (IB/RoCE v1)" in check.value


def test_a_fixed_gid_index_of_an_empty_slot_fails_and_shows_the_table(examined):
    check = examined("roce-v2", NCCL_IB_GID_INDEX="4")["gid"]
    assert check.status is Status.FAIL
    assert "mlx5_0 4=empty; its table: 0=fe80::a00:27ff:fe00:1 (IB/RoCE v1)" in check.value


def test_an_infiniband_gid_needs_no_version(examined):
    assert examined("infiniband", MC_GID_INDEX="0")["gid"].status is Status.PASS


def test_a_port_number_that_no_hca_has_fails(examined):
    check = examined("roce-v2", MC_IB_PORT="2")["port-state"]
    assert (check.status, check.value) == (Status.FAIL, "mlx5_0 has no port 2; mlx5_1 has no port 2")


def test_dmabuf_needs_the_open_modules(examined):
    check = examined("closed-gpu-modules", WITH_NVIDIA_PEERMEM="0")["gpu-direct"]
    assert check.status is Status.FAIL
    assert check.value.startswith("proprietary GPU kernel modules")


def test_dmabuf_is_offered_as_the_way_out_where_it_would_work(examined):
    check = examined("no-hca")["gpu-direct"]
    assert check.status is Status.FAIL
    assert "gpuDirect: dmabuf" in check.remedy
    assert check.expected == "module live"


def test_auto_takes_dmabuf_where_peermem_is_missing(examined):
    check = examined("no-hca", PDSERVING_PREFLIGHT_GPU_DIRECT="auto")["gpu-direct"]
    assert (check.status, check.value) == (Status.PASS, "dmabuf (open GPU kernel modules, kernel 6.8.0-60-generic)")


def test_auto_fails_where_neither_way_is_open(examined):
    check = examined("closed-gpu-modules", PDSERVING_PREFLIGHT_GPU_DIRECT="auto")["gpu-direct"]
    assert check.status is Status.FAIL
    assert "load nvidia_peermem" in check.remedy


def test_a_gpu_without_a_near_hca_is_a_warning(examined):
    check = examined("roce-v2", PDSERVING_PREFLIGHT_HCAS="mlx5_1")["gpu-affinity"]
    assert (check.status, check.value) == (Status.WARN, "0000:18:00.0 on NUMA 0")
