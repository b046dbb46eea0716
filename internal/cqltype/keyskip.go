package cqltype

import "bytes"

// SkipKey returns what follows a value's key form in key, without decoding
// it. It finds where the value ends and checks no more than that takes; like
// DecodeKey it gives an error where key ends too early.
func SkipKey(t *Type, key []byte, desc bool) (rest []byte, err error) {
	r := keyReader{rest: key}
	if desc {
		r.flip = 0xFF
	}
	if err := r.skipValue(t); err != nil {
		return key, err
	}
	return r.rest, nil
}

func (r *keyReader) skip(n int) error {
	if n < 0 || len(r.rest) < n {
		return errKey
	}
	r.rest = r.rest[n:]
	return nil
}

func (r *keyReader) skipValue(t *Type) error {
	marker, err := r.byte()
	switch {
	case err != nil:
		return err
	case marker == keyValue:
		return r.skipBody(t)
	case marker != keyEmpty:
		return errKey
	}
	return nil
}

func (r *keyReader) skipBody(t *Type) error {
	if size := keySize(t); size > 0 {
		return r.skip(size)
	}
	switch t.Kind {
	case KindText, KindAscii, KindBlob, KindInet, KindDuration, KindCustom:
		return r.skipEscaped()
	case KindVarint:
		return r.skipNumber()
	case KindDecimal:
		return r.skipDecimal()
	case KindList, KindSet, KindMap:
		for !r.atEnd() {
			for _, et := range t.Elems {
				if err := r.skipValue(et); err != nil {
					return err
				}
			}
		}
		return nil
	case KindTuple, KindUDT:
		return r.skipTuple(t)
	case KindVector:
		fixed := fixedLength(t.Elems[0]) > 0
		for range t.Dim {
			skip := r.skipValue
			if fixed {
				skip = r.skipBody
			}
			if err := skip(t.Elems[0]); err != nil {
				return err
			}
		}
		return nil
	}
	return errKey
}

func (r *keyReader) skipEscaped() error {
	for {
		i := bytes.IndexByte(r.rest, r.flip)
		if i < 0 || i+1 == len(r.rest) {
			return errKey
		}
		next := r.rest[i+1] ^ r.flip
		r.rest = r.rest[i+2:]
		switch next {
		case escapeEnd:
			return nil
		case escapeZero:
		default:
			return errKey
		}
	}
}

func (r *keyReader) skipNumber() error {
	_, size, err := r.numberHead()
	if err != nil {
		return err
	}
	return r.skip(size)
}

func (r *keyReader) skipDecimal() error {
	head, err := r.byte()
	if err != nil || head == decimalZero {
		return err
	}
	end := r.flip
	switch head {
	case decimalPositive:
	case decimalPositive ^ 0xFF:
		end ^= 0xFF
		defer func(flip byte) { r.flip = flip }(r.flip)
		r.flip ^= 0xFF
	default:
		return errKey
	}
	if err := r.skipNumber(); err != nil {
		return err
	}
	i := bytes.IndexByte(r.rest, end)
	if i < 0 {
		return errKey
	}
	return r.skip(i + 1)
}

func (r *keyReader) skipTuple(t *Type) error {
	for _, et := range t.Elems {
		if r.atEnd() {
			return nil
		}
		if len(r.rest) > 0 && r.rest[0]^r.flip == keyNull {
			r.rest = r.rest[1:]
			continue
		}
		if err := r.skipValue(et); err != nil {
			return err
		}
	}
	if !r.atEnd() {
		return errKey
	}
	return nil
}
