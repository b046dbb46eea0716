package cqlwire

import "bytes"

// PasswordAuthenticator is the class name that asks drivers for SASL PLAIN.
const PasswordAuthenticator = "org.apache.cassandra.auth.PasswordAuthenticator"

// Authenticate asks the client to log in.
type Authenticate struct {
	Class string
}

// Append writes the body.
func (m *Authenticate) Append(dst []byte) []byte { return AppendString(dst, m.Class) }

// Decode reads the body.
func (m *Authenticate) Decode(body []byte) error {
	r := NewReader(body)
	m.Class = r.String()
	return r.Err()
}

// AuthToken is the body of AUTH_RESPONSE, AUTH_CHALLENGE and AUTH_SUCCESS.
type AuthToken struct {
	Token []byte // nil: null
}

// Append writes the body.
func (m *AuthToken) Append(dst []byte) []byte { return AppendBytes(dst, m.Token) }

// Decode reads the body; the token aliases it.
func (m *AuthToken) Decode(body []byte) error {
	r := NewReader(body)
	m.Token = r.Bytes()
	return r.Err()
}

// AppendPlain writes a SASL PLAIN token (RFC 4616) with no authorization identity.
func AppendPlain(dst []byte, user, password string) []byte {
	dst = append(append(dst, 0), user...)
	return append(append(dst, 0), password...)
}

// DecodePlain reads a SASL PLAIN token as Cassandra does: the password is what
// follows the last zero byte, the user what stands between it and the one before.
func DecodePlain(token []byte) (user, password string, err error) {
	end := bytes.LastIndexByte(token, 0)
	if end < 0 {
		return "", "", &Error{Code: ErrBadCredentials, Message: "Authentication ID must not be null"}
	}
	start := bytes.LastIndexByte(token[:end], 0)
	user, password = string(token[start+1:end]), string(token[end+1:])
	if user == "" {
		return "", "", &Error{Code: ErrBadCredentials, Message: "Authentication ID must not be null"}
	}
	if password == "" {
		return "", "", &Error{Code: ErrBadCredentials, Message: "Password must not be null"}
	}
	return user, password, nil
}
