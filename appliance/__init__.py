"""The appliance: what rules over the data planes."""
