package cqltype

import (
	"encoding/binary"
	"errors"
	"math"
)

// MaxKeyBytes is the longest serialized partition key.
const MaxKeyBytes = math.MaxUint16

// JoinKey appends the serialized form of partition key components: a single
// one as it is, several each as u16 length, bytes, 0 (CompositeType). A key
// longer than MaxKeyBytes is refused.
func JoinKey(dst []byte, components [][]byte) ([]byte, error) {
	total := 0
	for _, c := range components {
		total += len(c)
		if len(components) > 1 {
			total += 3
		}
	}
	if total > MaxKeyBytes {
		return dst, marshalf("Key length of %d is longer than maximum of %d", total, MaxKeyBytes)
	}
	if len(components) == 1 {
		return append(dst, components[0]...), nil
	}
	for _, c := range components {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(c)))
		dst = append(append(dst, c...), 0)
	}
	return dst, nil
}

// SplitKey reverses JoinKey into n components that alias key.
func SplitKey(key []byte, n int) ([][]byte, error) {
	if n == 1 {
		return [][]byte{key}, nil
	}
	components := make([][]byte, 0, n)
	for range n {
		if len(key) < 3 {
			return nil, errShortKey
		}
		size := int(binary.BigEndian.Uint16(key))
		if len(key) < size+3 || key[2+size] != 0 {
			return nil, errShortKey
		}
		components = append(components, key[2:2+size:2+size])
		key = key[3+size:]
	}
	if len(key) > 0 {
		return nil, errors.New("bytes left after the last component of a partition key")
	}
	return components, nil
}

var errShortKey = errors.New("partition key ends within a component")
