"""What the API takes and gives: a module for each resource."""
