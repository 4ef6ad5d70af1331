"""The encoder layer of Ivanov et al., Data Movement Is All You Need (MLSys 2021): its graph, and the paper's tables."""
