// Package webpush sends messages to browsers: it encrypts them (RFC 8291) with the coding aes128gcm
// (RFC 8188), and identifies the sender to the push service (VAPID, RFC 8292).
package webpush

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// MaxMessage is the maximum size of a message in bytes: push services take bodies of 4,096 bytes
// (RFC 8030 §7.2), of which the header has 86, the tag of the cipher 16 and the delimiter one.
const MaxMessage = 4096 - 86 - 16 - 1

const (
	recordSize  = 4096 // RFC 8291 §4
	maxEndpoint = 2048
	tokenLife   = 12 * time.Hour // RFC 8292 §2: less than 24 hours
	maxReply    = 4 << 10
)

// ErrGone is returned if the subscription does not exist any more (RFC 8030 §7.3).
var ErrGone = errors.New("the browser is not subscribed any more")

// Subscription is where a browser gets messages, as PushSubscription.toJSON of the Push API gives
// it.
type Subscription struct {
	Endpoint string `json:"endpoint"`
	Keys     struct {
		P256dh string `json:"p256dh"` // public key, uncompressed, in unpadded base64url
		Auth   string `json:"auth"`   // 16 bytes
	} `json:"keys"`
}

// Validate returns an error if the subscription cannot be used. It does not check where the
// endpoint leads.
func (s *Subscription) Validate() error {
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(s.Endpoint) > maxEndpoint {
		return errors.New("the endpoint is no https address")
	}
	_, _, err = s.secrets()
	return err
}

func (s *Subscription) secrets() (*ecdh.PublicKey, []byte, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s.Keys.P256dh)
	if err != nil {
		return nil, nil, errors.New("the key of the browser is not base64url")
	}
	key, err := ecdh.P256().NewPublicKey(raw)
	if err != nil {
		return nil, nil, errors.New("the key of the browser is no point of P-256")
	}
	auth, err := base64.RawURLEncoding.DecodeString(s.Keys.Auth)
	if err != nil || len(auth) != 16 {
		return nil, nil, errors.New("the secret of the browser has not 16 bytes")
	}
	return key, auth, nil
}

// Encrypt returns the body of a message for a subscription.
func Encrypt(message []byte, s *Subscription) ([]byte, error) {
	own, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	salt := make([]byte, 16)
	rand.Read(salt) //nolint:errcheck // it does not fail
	return encrypt(message, s, own, salt)
}

// encrypt is Encrypt with the key and the salt of the message.
func encrypt(message []byte, s *Subscription, own *ecdh.PrivateKey, salt []byte) ([]byte, error) {
	if len(message) > MaxMessage {
		return nil, fmt.Errorf("the message has %d bytes, and %d are possible", len(message), MaxMessage)
	}
	theirs, auth, err := s.secrets()
	if err != nil {
		return nil, err
	}
	shared, err := own.ECDH(theirs)
	if err != nil {
		return nil, err
	}
	public := own.PublicKey().Bytes()
	// RFC 8291 §3.4, then RFC 8188 §2.2 and §2.3.
	info := "WebPush: info\x00" + string(theirs.Bytes()) + string(public)
	secret, err := hkdf.Key(sha256.New, shared, auth, info, 32)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: aes128gcm\x00", 16)
	if err != nil {
		return nil, err
	}
	nonce, err := hkdf.Key(sha256.New, secret, salt, "Content-Encoding: nonce\x00", 12)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	// RFC 8188 §2.1: salt, record size, length of the key id, key id.
	body := binary.BigEndian.AppendUint32(bytes.Clone(salt), recordSize)
	body = append(append(body, byte(len(public))), public...)
	return gcm.Seal(body, nonce, append(bytes.Clone(message), 2), nil), nil // 2: the last record
}

// Sender identifies an installation to push services. It is safe for concurrent use.
type Sender struct {
	// Key is a key of P-256. Browsers subscribe with its public half, so it must not change.
	Key *ecdsa.PrivateKey
	// Subject is an https or mailto address by which operators of push services reach the sender
	// (RFC 8292 §2.1).
	Subject string
	// Client must refuse to connect to anything but the public internet: browsers choose the
	// addresses.
	Client *http.Client
	Now    func() time.Time // nil: time.Now
}

// NewKey returns a new key.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// PublicKey returns the public half of a key as browsers want it (applicationServerKey).
func PublicKey(key *ecdsa.PrivateKey) (string, error) {
	raw, err := key.PublicKey.Bytes()
	return base64.RawURLEncoding.EncodeToString(raw), err
}

// Send sends a message, which the push service keeps for ttl at most. A message with the same
// topic, of up to 32 letters and digits, that is not delivered yet is replaced. The error is
// [ErrGone] if the subscription is to be forgotten; it never contains the address.
func (s *Sender) Send(ctx context.Context, to *Subscription, message []byte, ttl time.Duration, topic string) error {
	body, err := Encrypt(message, to)
	if err != nil {
		return err
	}
	token, err := s.authorization(to.Endpoint)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.Endpoint, bytes.NewReader(body))
	if err != nil {
		return errors.New("the address of the push service cannot be used")
	}
	req.Header.Set("Authorization", token)
	req.Header.Set("Content-Encoding", "aes128gcm")
	req.Header.Set("Content-Type", "application/octet-stream")
	req.Header.Set("TTL", strconv.Itoa(int(ttl.Seconds())))
	if topic != "" {
		req.Header.Set("Topic", topic)
	}
	res, err := s.Client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // drops the address
		}
		return fmt.Errorf("push: %w", err)
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, maxReply)) //nolint:errcheck // only the status matters
	switch {
	case res.StatusCode >= 200 && res.StatusCode < 300:
		return nil
	case res.StatusCode == http.StatusNotFound, res.StatusCode == http.StatusGone:
		return ErrGone
	}
	return fmt.Errorf("push: the service answered %d", res.StatusCode)
}

// authorization returns the header that identifies the sender to the service of an endpoint
// (RFC 8292 §2 and §3): a JWT signed with ES256 (RFC 7518 §3.4), and the key.
func (s *Sender) authorization(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", errors.New("the address of the push service cannot be read")
	}
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	claims, err := json.Marshal(map[string]any{"aud": u.Scheme + "://" + u.Host, "exp": now().Add(tokenLife).Unix(),
		"sub": s.Subject})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"typ":"JWT","alg":"ES256"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(signed))
	a, b, err := ecdsa.Sign(rand.Reader, s.Key, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	a.FillBytes(signature[:32])
	b.FillBytes(signature[32:])
	public, err := PublicKey(s.Key)
	return "vapid t=" + signed + "." + encode(signature) + ", k=" + public, err
}
