"""OpenZFS behind one interface: ZfsEngine, its values and its errors."""
