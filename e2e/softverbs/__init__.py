"""A test double of libibverbs: Mooncake's real RDMA transport on machines without RDMA. See README.md."""
