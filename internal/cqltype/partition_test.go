package cqltype

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestToken checks tokens that Cassandra 5.0.9 gave.
func TestToken(t *testing.T) {
	for _, c := range []struct {
		key   string
		token int64
	}{
		{"", math.MinInt64},
		{"00", 5048724184180415669},
		{"61", -8839064797231613815},
		{"68656c6c6f", -3758069500696749310},
		{"00000001", -4069959284402364209},
		{"ffffffffffffffff", 7071048584287372947},
		{"000102030405060708090a0b0c0d0e", 5125964547706398185},
		{"808182838485868788898a8b8c8d8e8f", 7217206371623098675},
		{"808182838485868788898a8b8c8d8e8fff", 8973897347207130942},
		{strings.Repeat("ff", 40), 3295903915886194887},
		{"000461626364000004000000070000", -2860394301184992567},
	} {
		key, err := hex.DecodeString(c.key)
		if err != nil {
			t.Fatal(err)
		}
		if got := Token(key); got != c.token {
			t.Errorf("token of %s is %d, want %d", c.key, got, c.token)
		}
	}
}

func TestTokenAllocs(t *testing.T) {
	key := make([]byte, 37)
	if n := testing.AllocsPerRun(100, func() { Token(key) }); n != 0 {
		t.Errorf("Token allocates %v times", n)
	}
}

func TestJoinKey(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOf(rapid.Byte()), 1, 4).Draw(rt, "parts")
		key, err := JoinKey([]byte("x"), parts)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := SplitKey(key[1:], len(parts))
		if err != nil {
			rt.Fatal(err)
		}
		for i := range parts {
			if !bytes.Equal(got[i], parts[i]) {
				rt.Fatalf("component %d is %x, want %x", i, got[i], parts[i])
			}
		}
		if len(parts) > 1 {
			for _, n := range []int{len(parts) - 1, len(parts) + 1} {
				if _, err := SplitKey(key[1:], n); err == nil && n > 1 {
					rt.Fatalf("%d components were read as %d", len(parts), n)
				}
			}
		}
	})
}

func TestJoinKeyLimit(t *testing.T) {
	if _, err := JoinKey(nil, [][]byte{make([]byte, MaxKeyBytes)}); err != nil {
		t.Error(err)
	}
	for _, parts := range [][][]byte{
		{make([]byte, MaxKeyBytes+1)},
		{make([]byte, MaxKeyBytes), {}},
	} {
		_, err := JoinKey(nil, parts)
		if err == nil || !strings.Contains(err.Error(), "is longer than maximum of 65535") {
			t.Errorf("%d components: %v", len(parts), err)
		}
	}
}
