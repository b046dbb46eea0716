package cqltype

// ReadsAs reports that every value of one type is, byte for byte, a value of
// another of a different kind, as Cassandra's isValueCompatibleWith has it.
func ReadsAs(from, to *Type) bool {
	switch to.Kind {
	case KindBlob:
		return true
	case KindText:
		return from.Kind == KindAscii
	case KindUUID:
		return from.Kind == KindTimeuuid
	case KindBigint:
		return from.Kind == KindTimestamp
	case KindTimestamp, KindTime:
		return from.Kind == KindBigint
	case KindDate:
		return from.Kind == KindInt
	case KindVarint:
		return from.Kind == KindInt || from.Kind == KindBigint || from.Kind == KindTimestamp
	}
	return false
}
