"""Code that several adapters share: columns, trigrams, feed positions, errors at opening."""
