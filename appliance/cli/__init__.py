"""The command `zvaai`: the API by noun and verb."""
