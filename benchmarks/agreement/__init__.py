"""How near the emulator comes to the hardware: ``python -m benchmarks.agreement``."""
