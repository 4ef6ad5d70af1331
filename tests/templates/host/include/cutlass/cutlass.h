// The host program uses nothing of it.
