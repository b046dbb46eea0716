package cqlwire

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// Version is a protocol version, without the direction bit.
type Version uint8

// The versions spoken.
const (
	V3 Version = 3
	V4 Version = 4
	V5 Version = 5

	MinVersion = V3
	MaxVersion = V5
)

// Supported reports that the version is spoken.
func (v Version) Supported() bool { return v >= MinVersion && v <= MaxVersion }

// String returns the version as Cassandra writes it: "4/v4".
func (v Version) String() string { return fmt.Sprintf("%d/v%d", uint8(v), uint8(v)) }

// SupportedVersions lists the versions as SUPPORTED announces them.
func SupportedVersions() []string {
	return []string{V3.String(), V4.String(), V5.String()}
}

// Opcode is a message's kind.
type Opcode uint8

// The opcodes (specification section 2.4).
const (
	OpError         Opcode = 0x00
	OpStartup       Opcode = 0x01
	OpReady         Opcode = 0x02
	OpAuthenticate  Opcode = 0x03
	OpCredentials   Opcode = 0x04 // version 1 only; known so that it can be named
	OpOptions       Opcode = 0x05
	OpSupported     Opcode = 0x06
	OpQuery         Opcode = 0x07
	OpResult        Opcode = 0x08
	OpPrepare       Opcode = 0x09
	OpExecute       Opcode = 0x0A
	OpRegister      Opcode = 0x0B
	OpEvent         Opcode = 0x0C
	OpBatch         Opcode = 0x0D
	OpAuthChallenge Opcode = 0x0E
	OpAuthResponse  Opcode = 0x0F
	OpAuthSuccess   Opcode = 0x10
)

var opcodeNames = [...]string{
	"ERROR", "STARTUP", "READY", "AUTHENTICATE", "CREDENTIALS", "OPTIONS", "SUPPORTED", "QUERY", "RESULT",
	"PREPARE", "EXECUTE", "REGISTER", "EVENT", "BATCH", "AUTH_CHALLENGE", "AUTH_RESPONSE", "AUTH_SUCCESS",
}

// String returns the opcode's name.
func (o Opcode) String() string {
	if int(o) < len(opcodeNames) {
		return opcodeNames[o]
	}
	return fmt.Sprintf("OPCODE(%d)", uint8(o))
}

// Known reports that the opcode is defined.
func (o Opcode) Known() bool { return int(o) < len(opcodeNames) }

// IsRequest reports that clients send messages of this kind.
func (o Opcode) IsRequest() bool {
	switch o {
	case OpStartup, OpCredentials, OpOptions, OpQuery, OpPrepare, OpExecute, OpRegister, OpBatch, OpAuthResponse:
		return true
	}
	return false
}

// Flags are a frame header's flags.
type Flags uint8

// The header flags (specification section 2.2).
const (
	FlagCompressed Flags = 0x01
	FlagTracing    Flags = 0x02
	FlagPayload    Flags = 0x04
	FlagWarning    Flags = 0x08
	FlagBeta       Flags = 0x10
)

// HeaderSize is a frame header's length in bytes, since version 3.
const HeaderSize = 9

// responseBit in the version byte marks a message from the server.
const responseBit = 0x80

// Header is a frame header ("envelope header" since version 5).
type Header struct {
	Version  Version
	Response bool
	Flags    Flags
	Stream   int16
	Opcode   Opcode
	Length   uint32 // of the body
}

// DecodeHeader reads the first HeaderSize bytes of b, which must be there. It
// checks nothing: CheckRequest does.
func DecodeHeader(b []byte) Header {
	_ = b[HeaderSize-1]
	return Header{
		Version:  Version(b[0] &^ responseBit),
		Response: b[0]&responseBit != 0,
		Flags:    Flags(b[1]),
		Stream:   int16(binary.BigEndian.Uint16(b[2:])),
		Opcode:   Opcode(b[4]),
		Length:   binary.BigEndian.Uint32(b[5:]),
	}
}

// AppendHeader writes a frame header.
func AppendHeader(dst []byte, h Header) []byte {
	v := byte(h.Version)
	if h.Response {
		v |= responseBit
	}
	dst = append(dst, v, byte(h.Flags), byte(uint16(h.Stream)>>8), byte(h.Stream), byte(h.Opcode))
	return binary.BigEndian.AppendUint32(dst, h.Length)
}

// BeginResponse writes a response's header with no length yet; EndFrame, given
// the length of dst before this call, fills it in once the body is appended.
func BeginResponse(dst []byte, v Version, flags Flags, stream int16, op Opcode) []byte {
	return append(dst, byte(v)|responseBit, byte(flags), byte(uint16(stream)>>8), byte(stream), byte(op), 0, 0, 0, 0)
}

// BeginRequest is BeginResponse for the client side.
func BeginRequest(dst []byte, v Version, flags Flags, stream int16, op Opcode) []byte {
	return append(dst, byte(v), byte(flags), byte(uint16(stream)>>8), byte(stream), byte(op), 0, 0, 0, 0)
}

// EndFrame sets the body length of the frame that begins at start and ends with dst.
func EndFrame(dst []byte, start int) {
	binary.BigEndian.PutUint32(dst[start+5:], uint32(len(dst)-start-HeaderSize))
}

// UnsupportedVersion is the error for a version that is not spoken; drivers
// recognise it by its text and step down.
func UnsupportedVersion(v Version) *Error {
	return protocolErrorf("Invalid or unsupported protocol version (%d); supported versions are (%s)",
		uint8(v), strings.Join(SupportedVersions(), ", "))
}

// CheckRequest returns the protocol error of a header that no client may send, or nil.
func (h *Header) CheckRequest() *Error {
	switch {
	case !h.Version.Supported():
		return UnsupportedVersion(h.Version)
	case !h.Opcode.Known():
		return protocolErrorf("Unknown opcode %d", uint8(h.Opcode))
	case h.Response != !h.Opcode.IsRequest():
		want, got := "REQUEST", "RESPONSE"
		if !h.Response {
			want, got = got, want
		}
		return protocolErrorf("Wrong protocol direction (expected %s, got %s) for opcode %d (%s)",
			want, got, uint8(h.Opcode), h.Opcode)
	case h.Response:
		return protocolErrorf("Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode %d (%s)",
			uint8(h.Opcode), h.Opcode)
	}
	return nil
}

// AppendLegacyError writes an ERROR for a client of protocol version 1 or 2,
// whose header has a stream of one byte, so that it learns why it is refused.
func AppendLegacyError(dst []byte, v Version, stream int8, e *Error) []byte {
	dst = append(dst, byte(v)|responseBit, 0, byte(stream), byte(OpError))
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = e.Append(dst, MinVersion)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst
}
