"""The compiled event kernel: instances, steps, resources and time."""
