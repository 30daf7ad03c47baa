"""What the tests of all compiled operators use."""

from collections.abc import Iterator

import pytest

from highwaynet.kernels.native import native_module

native = native_module()


@pytest.fixture(params=native.instruction_sets() if native else [])
def _each_instruction_set(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run with everything that this processor can run, not only with the best."""
    assert native is not None
    best = native.instruction_set()
    native.use_instruction_set(request.param)
    yield
    native.use_instruction_set(best)
