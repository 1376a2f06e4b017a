"""A plugin of pytest: an example that fails a property is not made smaller. That takes minutes, and nobody reads it."""

from hypothesis import Phase, settings


def pytest_configure() -> None:
    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    settings.register_profile("unshrunk", settings(), phases=phases)
    settings.load_profile("unshrunk")
