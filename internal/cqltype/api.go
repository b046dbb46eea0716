package cqltype

import (
	"errors"
	"strconv"
)

var errUnwritten = errors.New("unwritten")

func itoa(n int) string { return strconv.Itoa(n) }

// LiteralKind tells how a constant was written in CQL text.
type LiteralKind uint8

// The ways to write a constant.
const (
	LitString   LiteralKind = iota // 'text', $$text$$ (already unescaped)
	LitInteger                     // 42, -7
	LitFloat                       // 1.5, 1e10, NaN, Infinity
	LitBoolean                     // true, false
	LitUUID                        // 8-4-4-4-12 hex
	LitHex                         // 0xCAFE
	LitDuration                    // 1h30m, P1Y, P1Y2M
	LitNull                        // null, never given to ParseLiteral
)

// MaybeQuote returns a CQL identifier, double-quoted where it must be
// (reserved word, or not [a-z][a-z0-9_]*).
func MaybeQuote(name string) string { panic(errUnwritten) }

// Validate checks that b is a value of t in its binary form (protocol
// specification section 6; nil and, where Cassandra allows it, empty pass).
// Its error text is Cassandra's MarshalException text.
func Validate(t *Type, b []byte) error { panic(errUnwritten) }

// Compare orders two values in binary form as Cassandra's AbstractType does.
// Empty sorts first. It panics on values that Validate refuses.
func Compare(t *Type, a, b []byte) int { panic(errUnwritten) }

// AppendKey appends the order-preserving form of a value, so that bytewise
// order of keys is Compare's order (or the reverse with desc), whatever
// component follows. No encoding is a prefix of another of the same type.
func AppendKey(dst []byte, t *Type, b []byte, desc bool) ([]byte, error) { panic(errUnwritten) }

// DecodeKey reverses AppendKey: it appends the value's binary form to dst and
// returns what follows in key. For decimal (1.0 and 1.00 are one key) the
// value is canonical, not the written one; LossyKey tells.
func DecodeKey(dst []byte, t *Type, key []byte, desc bool) (value, rest []byte, err error) {
	panic(errUnwritten)
}

// LossyKey reports that DecodeKey may return another binary form than the one
// encoded (equal by Compare), so that the original must be kept beside the key.
func LossyKey(t *Type) bool { panic(errUnwritten) }

// ParseLiteral turns a constant into t's binary form, or says as Cassandra
// does why it cannot ("Invalid STRING constant (x) for \"c\" of type int" is
// the caller's; this returns the inner reason).
func ParseLiteral(t *Type, kind LiteralKind, text string) ([]byte, error) { panic(errUnwritten) }

// LiteralFits reports whether a constant of that kind may be given for t at
// all, and whether exactly (t is the kind's natural type) or by conversion,
// as Cassandra's Constants.Literal.testAssignment.
func LiteralFits(t *Type, kind LiteralKind) (ok, exact bool) { panic(errUnwritten) }

// FormatLiteral writes a value as a CQL literal, as Cassandra's toCQLString.
func FormatLiteral(dst []byte, t *Type, b []byte) []byte { panic(errUnwritten) }

// AppendJSON writes a value as JSON text, as SELECT JSON and toJson do; nil is null.
func AppendJSON(dst []byte, t *Type, b []byte) []byte { panic(errUnwritten) }

// FromJSON reads a JSON value (one complete JSON text) as t, as INSERT JSON and fromJson do.
func FromJSON(t *Type, json []byte) ([]byte, error) { panic(errUnwritten) }

// Token is the Murmur3Partitioner's token of a serialized partition key:
// Cassandra's variant of murmur3 x64_128, never math.MinInt64.
func Token(key []byte) int64 { panic(errUnwritten) }

// JoinKey serializes partition key components: a single one as it is, several
// each as u16 length, bytes, 0 (CompositeType). Components over 65535 bytes are refused.
func JoinKey(dst []byte, components [][]byte) ([]byte, error) { panic(errUnwritten) }

// SplitKey reverses JoinKey into n components that alias key.
func SplitKey(key []byte, n int) ([][]byte, error) { panic(errUnwritten) }

// AppendCollection writes a list or set value (protocol v3+ form: i32 count,
// each i32 length and bytes); for maps elems alternates key and value and the
// count is pairs.
func AppendCollection(dst []byte, t *Type, elems [][]byte) []byte { panic(errUnwritten) }

// SplitCollection returns the elements (for maps: key, value, key, value …),
// aliasing b. Lengths are checked.
func SplitCollection(t *Type, b []byte) ([][]byte, error) { panic(errUnwritten) }

// AppendTuple writes a tuple or UDT value (each i32 length and bytes; nil is -1).
func AppendTuple(dst []byte, elems [][]byte) []byte { panic(errUnwritten) }

// SplitTuple returns a tuple's or UDT's fields aliasing b; missing trailing fields are nil.
func SplitTuple(t *Type, b []byte) ([][]byte, error) { panic(errUnwritten) }

// AppendVector writes a vector; fixed-length element types are packed, others
// have an unsigned-vint length each (Cassandra's VectorType).
func AppendVector(dst []byte, t *Type, elems [][]byte) []byte { panic(errUnwritten) }

// SplitVector returns a vector's elements aliasing b.
func SplitVector(t *Type, b []byte) ([][]byte, error) { panic(errUnwritten) }

// ParseClassName reads a marshal class name, with or without its package, such as
// org.apache.cassandra.db.marshal.ListType(org…Int32Type) or ReversedType(…);
// reversed tells of the latter. Unknown classes give an error.
func ParseClassName(s string) (t *Type, reversed bool, err error) { panic(errUnwritten) }

// ClassNameOf writes t as a marshal class name, as the protocol's custom type option does.
func ClassNameOf(t *Type) string { panic(errUnwritten) }
