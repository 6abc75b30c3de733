"""What the appliance is about, as plain typed code: no HTTP, no subprocess."""
