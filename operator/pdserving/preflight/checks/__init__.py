"""The judgements, each a pure function ``(machine, wanted) -> Check``, in files by what they look at."""
