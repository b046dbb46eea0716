package cqlwire

import "strconv"

// Consistency is a consistency level as on the wire.
type Consistency uint16

// The consistency levels.
const (
	Any         Consistency = 0x0000
	One         Consistency = 0x0001
	Two         Consistency = 0x0002
	Three       Consistency = 0x0003
	Quorum      Consistency = 0x0004
	All         Consistency = 0x0005
	LocalQuorum Consistency = 0x0006
	EachQuorum  Consistency = 0x0007
	Serial      Consistency = 0x0008
	LocalSerial Consistency = 0x0009
	LocalOne    Consistency = 0x000A
	NodeLocal   Consistency = 0x000B
)

var consistencyNames = [...]string{
	"ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_QUORUM", "EACH_QUORUM",
	"SERIAL", "LOCAL_SERIAL", "LOCAL_ONE", "NODE_LOCAL",
}

// Valid reports that c is one of the defined levels.
func (c Consistency) Valid() bool { return int(c) < len(consistencyNames) }

// IsSerial reports SERIAL or LOCAL_SERIAL.
func (c Consistency) IsSerial() bool { return c == Serial || c == LocalSerial }

// String returns the level's name as CQL tools print it.
func (c Consistency) String() string {
	if !c.Valid() {
		return "UNKNOWN(" + strconv.Itoa(int(c)) + ")"
	}
	return consistencyNames[c]
}

// ParseConsistency returns the level of that exact (upper case) name.
func ParseConsistency(name string) (Consistency, bool) {
	for i, n := range consistencyNames {
		if n == name {
			return Consistency(i), true
		}
	}
	return 0, false
}
