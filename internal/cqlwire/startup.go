package cqlwire

import "strings"

// Keys of STARTUP and SUPPORTED options.
const (
	OptCQLVersion       = "CQL_VERSION"
	OptCompression      = "COMPRESSION"
	OptProtocolVersions = "PROTOCOL_VERSIONS"
	OptDriverName       = "DRIVER_NAME"
	OptDriverVersion    = "DRIVER_VERSION"
	OptThrowOnOverload  = "THROW_ON_OVERLOAD"
)

// Startup is the STARTUP request. Option names are in upper case once decoded.
type Startup struct {
	Options map[string]string
}

// Append writes the body.
func (m *Startup) Append(dst []byte) []byte { return AppendStringMap(dst, m.Options) }

// Decode reads the body.
func (m *Startup) Decode(body []byte) error {
	r := NewReader(body)
	read := r.StringMap()
	m.Options = make(map[string]string, len(read))
	for k, v := range read {
		m.Options[strings.ToUpper(k)] = v
	}
	return r.Err()
}

// Supported is the answer to OPTIONS (which has no body).
type Supported struct {
	Options map[string][]string
}

// Append writes the body.
func (m *Supported) Append(dst []byte) []byte { return AppendStringMultimap(dst, m.Options) }

// Decode reads the body.
func (m *Supported) Decode(body []byte) error {
	r := NewReader(body)
	m.Options = r.StringMultimap()
	return r.Err()
}
