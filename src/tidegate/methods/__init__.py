"""Named methods: the combinations of stages that papers, and we, have published."""
