// Package wire is the protocol between a relay and the homes behind it. It is all in this file.
//
// # Control connection
//
// A home keeps one TLS 1.3 connection to the port of the relay on which the public arrives, with
// the relay's name as SNI and [ALPN]. Both sides present a self-signed certificate of an Ed25519
// key. The home knows the relay's key from its join code ([Code]) and remembers it; the relay knows
// the home's key since its first join. No certification authority takes part.
//
// Then both sides send frames: a type (1 byte), the length of the payload (2 bytes, big endian, at
// most [MaxPayload]), and the payload. The home begins with [Hello]; the relay answers [Welcome] or
// [Refused]. Frames of unknown types are skipped, so that either side may be newer.
//
// # Data connections
//
// For each connection of the public there is one TCP connection from the home to the same port. The
// home opens some ahead ([Dial]), so that no round trip is lost. It begins with a [Preamble], which
// cannot be the beginning of TLS. When the relay has a connection of the public for it, it sends a
// [Header] with the address of the client, and then the bytes of the client from the first one on.
// The home answers with [Ack] and then the bytes for the client. There is no other framing: after
// 36 and 1 bytes it is a plain TCP connection with the end user's TLS in it.
//
// Preamble and header are authenticated with keys that both sides derive from the control
// connection by a TLS exporter (RFC 8446, section 7.5), so they never travel. Each data connection
// has a number of its own, which is the nonce of both and which the relay accepts once.
package wire

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
)

const (
	// ALPN is the protocol of control connections (RFC 7301). It has the version of the protocol.
	ALPN = "patchbay-relay/1"
	// exporterLabel is the label of the keys of data connections. RFC 5705, section 4, reserves
	// labels that begin with EXPORTER for such use.
	exporterLabel = "EXPORTER-patchbay-relay-data"

	// MaxPayload bounds the payload of a frame, in bytes.
	MaxPayload = 4 << 10
	frameHead  = 3
)

// Type is the type of a frame.
type Type byte

// The types of frames. Ping and Pong have no payload; either side may send Ping, and the other
// answers Pong. GoAway has none: the relay stops, and the home connects anew while its streams go
// on.
const (
	TypeHello   Type = 1
	TypeWelcome Type = 2
	TypeRefused Type = 3
	TypePing    Type = 4
	TypePong    Type = 5
	TypeDial    Type = 6
	TypeGoAway  Type = 7
)

// Hello is the first frame of a home.
type Hello struct {
	// Instance tells the instances of one installation apart. A later connection of the same
	// instance replaces the earlier one; those of several share the streams.
	Instance string `json:"instance"`
	// Secret is that of the join code, which is needed once; otherwise empty.
	Secret string `json:"secret,omitempty"`
}

// Welcome accepts a home.
type Welcome struct {
	// Names are the host names that lead to this home, the main one first: 1 to [MaxNames] full
	// names in lower case, without a final dot.
	Names []string `json:"names"`
	// Session is the id of this control connection, which each data connection names.
	Session SessionID `json:"session"`
	// Heartbeat is the interval of pings in milliseconds. A side that has heard nothing for three
	// intervals gives the connection up.
	Heartbeat int `json:"heartbeat_ms"`
}

// Reason says why a relay refuses a home.
type Reason string

// The reasons of a relay.
const (
	ReasonUnknown  Reason = "unknown"   // the key is of no home, and there is no valid join code
	ReasonUsed     Reason = "used"      // the join code has let another home in
	ReasonRevoked  Reason = "revoked"   // the home was removed at the relay
	ReasonFull     Reason = "full"      // the relay or the home has too many connections
	ReasonStopping Reason = "stopping"  // the relay stops
	ReasonBroken   Reason = "malformed" // the first frame is no valid Hello
)

// Refused refuses a home, or ends its connection. The relay closes it then.
type Refused struct {
	Reason Reason `json:"reason"`
}

// Dial asks the home for data connections: their number as 2 bytes, big endian.
type Dial int

// maxInstance bounds the name of an instance, in bytes.
const maxInstance = 64

// ErrFrame means that a frame violates the protocol.
var ErrFrame = errors.New("relay: malformed frame")

// WriteFrame writes a frame with one call of Write. The value is a [Hello], a [Welcome], a
// [Refused], a [Dial], or nil for no payload.
func WriteFrame(w io.Writer, t Type, value any) error {
	b := make([]byte, frameHead, 64)
	switch v := value.(type) {
	case nil:
	case Dial:
		b = binary.BigEndian.AppendUint16(b, uint16(min(v, 1<<16-1))) //nolint:gosec // bounded
	default:
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		b = append(b, text...)
	}
	if len(b)-frameHead > MaxPayload {
		return fmt.Errorf("%w: %d bytes", ErrFrame, len(b)-frameHead)
	}
	b[0] = byte(t)
	binary.BigEndian.PutUint16(b[1:], uint16(len(b)-frameHead)) //nolint:gosec // bounded above
	_, err := w.Write(b)
	return err
}

// ReadFrame reads a frame. The payload is valid until the next call with the same buffer, which
// has at least MaxPayload bytes. A payload that is too long is [ErrFrame].
func ReadFrame(r io.Reader, buffer []byte) (Type, []byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint16(head[1:]))
	if n > MaxPayload || n > len(buffer) {
		return 0, nil, fmt.Errorf("%w: %d bytes", ErrFrame, n)
	}
	if _, err := io.ReadFull(r, buffer[:n]); err != nil {
		return 0, nil, err
	}
	return Type(head[0]), buffer[:n], nil
}

// ParseHello parses the payload of a Hello.
func ParseHello(payload []byte) (h Hello, err error) {
	if err := json.Unmarshal(payload, &h); err != nil || h.Instance == "" || len(h.Instance) > maxInstance ||
		len(h.Secret) > 2*secretSize {
		return Hello{}, ErrFrame
	}
	return h, nil
}

// ParseWelcome parses the payload of a Welcome.
func ParseWelcome(payload []byte) (w Welcome, err error) {
	if err := json.Unmarshal(payload, &w); err != nil || !AreNames(w.Names) || w.Heartbeat <= 0 {
		return Welcome{}, ErrFrame
	}
	return w, nil
}

// ParseRefused parses the payload of a Refused.
func ParseRefused(payload []byte) (r Refused, err error) {
	if err := json.Unmarshal(payload, &r); err != nil || r.Reason == "" {
		return Refused{}, ErrFrame
	}
	return r, nil
}

// ParseDial parses the payload of a Dial.
func ParseDial(payload []byte) (Dial, error) {
	if len(payload) != 2 {
		return 0, ErrFrame
	}
	return Dial(binary.BigEndian.Uint16(payload)), nil
}

// SessionID identifies a control connection. It is not secret.
type SessionID [16]byte

// NewSessionID returns a random id.
func NewSessionID() (id SessionID) {
	rand.Read(id[:]) //nolint:errcheck // it never fails
	return id
}

// MarshalText implements [encoding.TextMarshaler].
func (id SessionID) MarshalText() ([]byte, error) {
	return []byte(base64.RawURLEncoding.EncodeToString(id[:])), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (id *SessionID) UnmarshalText(text []byte) error {
	b, err := base64.RawURLEncoding.DecodeString(string(text))
	if err != nil || len(b) != len(id) {
		return ErrFrame
	}
	copy(id[:], b)
	return nil
}

// Kind says what a client of the public wants, by the port on which it arrived.
type Kind byte

// The kinds of streams. Both are TLS.
const (
	HTTPS Kind = 1
	MQTT  Kind = 2
)

const (
	sessionSize = len(SessionID{})
	tagSize     = 16
	boundSize   = 4 + sessionSize + 8 // magic, session, number: what the tags of a connection bind

	// PreambleSize is the size of a preamble in bytes: magic, session, number (8 bytes, big
	// endian), and the tag of AES-256-GCM over them.
	PreambleSize = boundSize + tagSize
	addressSize  = 1 + 1 + 2 + 16 // kind, zero, port, address
	// HeaderSize is the size of a header in bytes: kind, a zero byte, port (big endian) and IPv6
	// address of the client (IPv4 mapped, RFC 4291, section 2.5.5.2), sealed with AES-256-GCM.
	HeaderSize = addressSize + tagSize

	// Ack is the byte with which a home accepts a stream.
	Ack = 0x06
)

// magic begins a preamble. Its first byte is no content type of TLS (RFC 8446, section 5.1), which
// begins with 20 to 24.
var magic = [4]byte{'P', 'B', 'R', '1'}

// IsPreamble reports whether the first byte of a connection begins a preamble.
func IsPreamble(first byte) bool { return first == magic[0] }

// ErrPreamble means that a preamble or a header is not authentic.
var ErrPreamble = errors.New("relay: not authentic")

// Keys authenticate the data connections of one control connection. They are safe for concurrent
// use. Each number is used for one preamble and one header only.
type Keys struct {
	session      SessionID
	toRelay, out cipher.AEAD
}

// NewKeys derives the keys from a control connection after its handshake.
func NewKeys(c tls.ConnectionState, session SessionID) (*Keys, error) {
	secret, err := c.ExportKeyingMaterial(exporterLabel, session[:], 64)
	if err != nil {
		return nil, err
	}
	return keysOf(secret, session)
}

// keysOf returns the keys of 64 secret bytes, half for each direction.
func keysOf(secret []byte, session SessionID) (*Keys, error) {
	k := &Keys{session: session}
	for i, to := range []*cipher.AEAD{&k.toRelay, &k.out} {
		block, err := aes.NewCipher(secret[32*i : 32*i+32])
		if err != nil {
			return nil, err
		}
		if *to, err = cipher.NewGCM(block); err != nil {
			return nil, err
		}
	}
	return k, nil
}

func (k *Keys) bound(number uint64) []byte {
	b := append(make([]byte, 0, PreambleSize), magic[:]...)
	b = append(b, k.session[:]...)
	return binary.BigEndian.AppendUint64(b, number)
}

func nonce(number uint64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 4, 12), number)
}

// Preamble returns the preamble of a data connection.
func (k *Keys) Preamble(number uint64) []byte {
	b := k.bound(number)
	return k.toRelay.Seal(b, nonce(number), nil, b)
}

// ReadPreamble returns the session and the number of a preamble, which is not yet authentic.
func ReadPreamble(b []byte) (SessionID, uint64, error) {
	if len(b) != PreambleSize || [4]byte(b) != magic {
		return SessionID{}, 0, ErrPreamble
	}
	return SessionID(b[4:]), binary.BigEndian.Uint64(b[4+sessionSize:]), nil
}

// CheckPreamble checks that a preamble is one of these keys.
func (k *Keys) CheckPreamble(b []byte) error {
	session, number, err := ReadPreamble(b)
	if err != nil || session != k.session {
		return ErrPreamble
	}
	if _, err := k.toRelay.Open(nil, nonce(number), b[boundSize:], b[:boundSize]); err != nil {
		return ErrPreamble
	}
	return nil
}

// Header returns the header of the data connection with a number.
func (k *Keys) Header(number uint64, kind Kind, client netip.AddrPort) []byte {
	plain := make([]byte, 4, addressSize)
	plain[0] = byte(kind)
	binary.BigEndian.PutUint16(plain[2:], client.Port())
	address := client.Addr().As16()
	plain = append(plain, address[:]...)
	return k.out.Seal(make([]byte, 0, HeaderSize), nonce(number), plain, k.bound(number))
}

// OpenHeader returns what is in the header of the data connection with a number.
func (k *Keys) OpenHeader(number uint64, b []byte) (Kind, netip.AddrPort, error) {
	plain, err := k.out.Open(nil, nonce(number), b, k.bound(number))
	if err != nil || len(plain) != addressSize {
		return 0, netip.AddrPort{}, ErrPreamble
	}
	address := netip.AddrFrom16([16]byte(plain[4:])).Unmap()
	return Kind(plain[0]), netip.AddrPortFrom(address, binary.BigEndian.Uint16(plain[2:])), nil
}

// Fingerprint is the SHA-256 of a public key as in its certificate (SubjectPublicKeyInfo, RFC 5280,
// section 4.1.2.7).
type Fingerprint [sha256.Size]byte

// String returns the fingerprint as URL-safe base64 of 43 characters.
func (f Fingerprint) String() string { return base64.RawURLEncoding.EncodeToString(f[:]) }

// ParseFingerprint parses what String returns.
func ParseFingerprint(text string) (f Fingerprint, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != len(f) {
		return f, ErrCode
	}
	return Fingerprint(b), nil
}

// FingerprintOf returns the fingerprint of the certificate that the other side presented.
func FingerprintOf(c tls.ConnectionState) (Fingerprint, error) {
	if len(c.PeerCertificates) == 0 {
		return Fingerprint{}, ErrPreamble
	}
	return sha256.Sum256(c.PeerCertificates[0].RawSubjectPublicKeyInfo), nil
}

const (
	codePrefix = "pbjoin_"
	secretSize = 20 // 160 bits cannot be guessed
)

// ErrCode means that a text is no join code.
var ErrCode = errors.New("relay: no join code")

// Code is a join code: it lets one home in, once, and tells it the key of the relay.
type Code struct {
	Relay  Fingerprint
	Secret string // 27 characters of URL-safe base64
}

// NewCode returns a code with a random secret.
func NewCode(relay Fingerprint) Code {
	var b [secretSize]byte
	rand.Read(b[:]) //nolint:errcheck // it never fails
	return Code{relay, base64.RawURLEncoding.EncodeToString(b[:])}
}

// String returns the code as text of 77 characters.
func (c Code) String() string { return codePrefix + c.Relay.String() + c.Secret }

// ParseCode parses what String returns.
func ParseCode(text string) (Code, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), codePrefix)
	size := base64.RawURLEncoding.EncodedLen(sha256.Size)
	if !ok || len(rest) != size+base64.RawURLEncoding.EncodedLen(secretSize) {
		return Code{}, ErrCode
	}
	relay, err := ParseFingerprint(rest[:size])
	if err != nil {
		return Code{}, ErrCode
	}
	if _, err := base64.RawURLEncoding.DecodeString(rest[size:]); err != nil {
		return Code{}, ErrCode
	}
	return Code{relay, rest[size:]}, nil
}
