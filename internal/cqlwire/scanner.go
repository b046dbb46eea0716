package cqlwire

import (
	"errors"
	"fmt"
	"io"
)

// scannerBuffer is the size in bytes of a Scanner's first buffer.
const scannerBuffer = 16 << 10

// errNotWhole is a segment stream that ends a large frame early.
var errNotWhole = errors.New("segment does not hold what its frame's header says")

// Scanner reads the frames of a stream: bare ones, and, once SetSegmented was
// called, those in segments. It is meant for clients; a server has more to
// limit and to answer.
type Scanner struct {
	r         io.Reader
	max       int
	buf       []byte // buf[pos:end] is not yet decoded
	pos, end  int
	segmented bool
	lz4       bool
	frames    []byte // plain contents of the segments not yet handed out
}

// NewScanner returns a scanner of bare frames of at most max bytes each.
func NewScanner(r io.Reader, max int) *Scanner {
	return &Scanner{r: r, max: max, buf: make([]byte, scannerBuffer)}
}

// SetSegmented switches to segments, which version 5 does after the answer to STARTUP.
func (s *Scanner) SetSegmented(lz4 bool) { s.segmented, s.lz4 = true, lz4 }

// Next returns the next frame. The body is valid until the next call.
func (s *Scanner) Next() (Header, []byte, error) {
	for {
		unread := s.buf[s.pos:s.end]
		if s.segmented {
			unread = s.frames
		}
		if len(unread) >= HeaderSize {
			if h := DecodeHeader(unread); int64(h.Length) > int64(s.max) {
				return h, nil, fmt.Errorf("frame of %d bytes exceeds the limit of %d", h.Length, s.max)
			}
		}
		if h, body, rest, ok := SplitFrame(unread); ok {
			if s.segmented {
				s.frames = rest
			} else {
				s.pos = s.end - len(rest)
			}
			return h, body, nil
		}
		if err := s.more(); err != nil {
			return Header{}, nil, err
		}
	}
}

// more takes in another segment, or, without segments, more bytes.
func (s *Scanner) more() error {
	if !s.segmented {
		return s.fill(s.end - s.pos + 1)
	}
	size := SegmentHeaderSize
	if s.lz4 {
		size = SegmentHeaderSizeLZ4
	}
	if err := s.fill(size); err != nil {
		return err
	}
	h, err := DecodeSegmentHeader(s.buf[s.pos:], s.lz4)
	if err != nil {
		return err
	}
	total := size + h.Payload + SegmentTrailerSize
	if err := s.fill(total); err != nil {
		return noEOF(err)
	}
	payload := s.buf[s.pos+size : s.pos+size+h.Payload]
	if err := CheckSegmentPayload(payload, s.buf[s.pos+size+h.Payload:]); err != nil {
		return err
	}
	s.pos += total
	if len(s.frames) > 0 && h.SelfContained {
		return errNotWhole
	}
	// What was handed out may still be read until the next call, which this is.
	s.frames = append(make([]byte, 0, len(s.frames)+max(h.Payload, h.Plain)), s.frames...)
	if h.Plain == 0 {
		s.frames = append(s.frames, payload...)
		return nil
	}
	s.frames, err = DecompressSegment(s.frames, payload, h)
	return err
}

// fill reads until n bytes are there to decode.
func (s *Scanner) fill(n int) error {
	if s.pos > 0 && (s.pos == s.end || s.pos+n > len(s.buf)) {
		s.end = copy(s.buf, s.buf[s.pos:s.end])
		s.pos = 0
	}
	for s.end-s.pos < n {
		if s.end == len(s.buf) {
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
		}
		k, err := s.r.Read(s.buf[s.end:])
		s.end += k
		if k == 0 && err != nil {
			if s.end > s.pos {
				return noEOF(err)
			}
			return err
		}
	}
	return nil
}

// noEOF makes the end of a stream within a frame an error of its own.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
