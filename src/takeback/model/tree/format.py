"""The constants of tree format 1. A store keeps its format; changing any of these makes format 2."""

FORMAT = 1

PLAIN_MAX = 4096  # a value whose encoding is no longer than this is one object
INLINE_MAX = 256  # a value no longer than this stands inside its parent
NODE_MAX = 8192  # above this a dict node puts its children into objects of their own, then splits

LEAF_TARGET = 8192  # bytes of list items per leaf, on average
LEAF_MIN_ITEMS = 8  # no cut before so many items
LEAF_MIN_BYTES = 1024  # … unless they already have so many bytes
LEAF_MAX_ITEMS = 256
LEAF_MAX_BYTES = 65536
ITEM_BIG = 16384  # a list item larger than this is a tree of its own

GROUP_MIN, GROUP_MAX, GROUP_MASK = 2, 64, 7  # children of an index node of a list; cut on digest bits
KEYS_MAX, KEYS_MASK = 256, 31  # entries of a leaf of a wide dict; cut on the hash of the key
WIDE_MAX, WIDE_BITS = 64, 4  # children of an index node of a wide dict, and hash bits per level

SEED = 0x7B
"""Of the cut hashes (xxh3): a cheap hash, since a cut decides about space and never about trust."""
