package wire

import (
	"encoding/json"
	"errors"
	"time"
)

// Challenge is what a gateway sends first. Clients that sign refuse one without a
// time.
type Challenge struct {
	Nonce string `json:"nonce"`
	TS    int64  `json:"ts"` // milliseconds since 1970
}

// AppendChallenge appends the event.
func AppendChallenge(b []byte, nonce string, now time.Time) []byte {
	return AppendEvent(b, EventChallenge, mustJSON(Challenge{nonce, now.UnixMilli()}), 0)
}

// ErrChallenge says that a challenge cannot be signed.
var ErrChallenge = errors.New("the gateway's challenge has no nonce or no time")

// ParseChallenge reads the payload of the event.
func ParseChallenge(payload []byte) (Challenge, error) {
	var c Challenge
	if json.Unmarshal(payload, &c) != nil || c.Nonce == "" || c.TS <= 0 {
		return Challenge{}, ErrChallenge
	}
	return c, nil
}

// Connect are the parameters of connect.
type Connect struct {
	MinProtocol int64           `json:"minProtocol"`
	MaxProtocol int64           `json:"maxProtocol"`
	Client      Client          `json:"client"`
	Role        string          `json:"role,omitempty"`   // empty: operator
	Scopes      []string        `json:"scopes,omitempty"` // of an operator
	Caps        []string        `json:"caps,omitempty"`
	Commands    []string        `json:"commands,omitempty"` // of a node: what it wants to be called for
	Permissions map[string]bool `json:"permissions,omitempty"`
	Auth        *Auth           `json:"auth,omitempty"`
	Device      *Device         `json:"device,omitempty"`
	PathEnv     string          `json:"pathEnv,omitempty"`
	Locale      string          `json:"locale,omitempty"`
	UserAgent   string          `json:"userAgent,omitempty"`
}

// Client says what program a client is. ID and Mode are one of [ClientIDs] and
// [Modes].
type Client struct {
	ID              string `json:"id"`
	DisplayName     string `json:"displayName,omitempty"`
	Version         string `json:"version"`
	Platform        string `json:"platform"`
	DeviceFamily    string `json:"deviceFamily,omitempty"`
	ModelIdentifier string `json:"modelIdentifier,omitempty"`
	BuildID         string `json:"buildId,omitempty"`
	TimeZone        string `json:"timeZone,omitempty"`
	Mode            string `json:"mode"`
	InstanceID      string `json:"instanceId,omitempty"`
}

// Auth is what a client shows. They are secrets.
type Auth struct {
	Token          string `json:"token,omitempty"`
	DeviceToken    string `json:"deviceToken,omitempty"`
	BootstrapToken string `json:"bootstrapToken,omitempty"`
	Password       string `json:"password,omitempty"`
}

// Device is the proof that a client is the device that it was before.
type Device struct {
	ID        string `json:"id"`
	PublicKey string `json:"publicKey"`
	Signature string `json:"signature"`
	SignedAt  int64  `json:"signedAt"` // milliseconds since 1970
	Nonce     string `json:"nonce"`
}

// ParseConnect reads the parameters of connect, and checks everything that needs
// no knowledge of credentials: shape, role and version. The error is what the client
// is told.
func ParseConnect(params []byte) (*Connect, *Error) {
	if e := ShapeConnect.Invalid(params); e != nil {
		e.Close = ClosePolicy
		return nil, e
	}
	// Numbers may be spelled like 4.0, which the library does not take for a whole
	// one.
	var c struct {
		Connect
		MinProtocol json.RawMessage `json:"minProtocol"`
		MaxProtocol json.RawMessage `json:"maxProtocol"`
		Device      *struct {
			Device
			SignedAt json.RawMessage `json:"signedAt"`
		} `json:"device"`
	}
	if err := json.Unmarshal(params, &c); err != nil {
		return nil, refusal(InvalidRequest, "invalid connect params", nil)
	}
	p := &c.Connect
	p.MinProtocol, p.MaxProtocol = integer(c.MinProtocol), integer(c.MaxProtocol)
	if c.Device != nil {
		p.Device = &c.Device.Device
		p.Device.SignedAt = integer(c.Device.SignedAt)
	}
	if p.Role == "" {
		p.Role = RoleOperator
	}
	if p.Role != RoleOperator && p.Role != RoleNode {
		return nil, BadRole
	}
	if !p.speaks() {
		return nil, ProtocolMismatch(p.MinProtocol, p.MaxProtocol)
	}
	return p, nil
}

// speaks says whether client and gateway have a version in common.
func (c *Connect) speaks() bool {
	least := int64(Protocol)
	switch {
	case c.Role == RoleNode && c.Client.Mode == ModeNode:
		least = MinNode
	case c.Client.Mode == ModeProbe:
		least = MinProbe
	}
	return c.MinProtocol <= Protocol && c.MaxProtocol >= least && c.MinProtocol <= c.MaxProtocol
}

// Credential is the token that a client shows, and that it has signed: passwords are
// not signed.
func (c *Connect) Credential() string {
	if c.Auth == nil {
		return ""
	}
	switch {
	case c.Auth.Token != "":
		return c.Auth.Token
	case c.Auth.DeviceToken != "":
		return c.Auth.DeviceToken
	}
	return c.Auth.BootstrapToken
}

// Hello is the answer to connect. A real gateway's is 16 KiB long.
type Hello struct {
	Type     string   `json:"type"` // always hello-ok
	Protocol int      `json:"protocol"`
	Server   Server   `json:"server"`
	Features Features `json:"features"`
	Snapshot Snapshot `json:"snapshot"`
	Auth     Granted  `json:"auth"`
	Policy   Limits   `json:"policy"`
}

// Server says what program a gateway is. ConnID names the connection.
type Server struct {
	Version string `json:"version"`
	ConnID  string `json:"connId"`
	BootID  string `json:"bootId,omitempty"`
}

// Features are what a gateway can do.
type Features struct {
	Methods      []string `json:"methods"`
	Events       []string `json:"events"`
	Capabilities []string `json:"capabilities,omitempty"`
}

// Snapshot is how things stand.
type Snapshot struct {
	Presence     []json.RawMessage `json:"presence"`
	Health       json.RawMessage   `json:"health"`
	StateVersion StateVersion      `json:"stateVersion"`
	UptimeMS     int64             `json:"uptimeMs"`
	Sessions     *SessionDefaults  `json:"sessionDefaults,omitempty"`
}

// StateVersion counts changes.
type StateVersion struct {
	Presence int64 `json:"presence"`
	Health   int64 `json:"health"`
}

// SessionDefaults say which conversation is meant if none is named.
type SessionDefaults struct {
	AgentID        string `json:"defaultAgentId"`
	MainKey        string `json:"mainKey"`
	MainSessionKey string `json:"mainSessionKey"`
}

// Granted is what a client may do. The token is a secret, and shown instead of the
// gateway's the next time.
type Granted struct {
	Role        string   `json:"role"`
	Scopes      []string `json:"scopes"`
	DeviceToken string   `json:"deviceToken,omitempty"`
	IssuedAtMS  int64    `json:"issuedAtMs,omitempty"`
}

// Limits are what a gateway holds to.
type Limits struct {
	MaxPayload     int64 `json:"maxPayload"`
	MaxBuffered    int64 `json:"maxBufferedBytes"`
	TickIntervalMS int64 `json:"tickIntervalMs"`
}

// JSON is the payload of the answer. What has to be there and is not is filled in,
// with the limits of this package.
func (h Hello) JSON() json.RawMessage {
	h.Type = "hello-ok"
	if h.Protocol == 0 {
		h.Protocol = Protocol
	}
	if h.Policy == (Limits{}) {
		h.Policy = Limits{MaxFrame, MaxBuffered, TickInterval.Milliseconds()}
	}
	if h.Snapshot.Presence == nil {
		h.Snapshot.Presence = []json.RawMessage{}
	}
	if h.Snapshot.Health == nil {
		h.Snapshot.Health = json.RawMessage("{}")
	}
	for _, list := range []*[]string{&h.Features.Methods, &h.Features.Events, &h.Auth.Scopes} {
		if *list == nil {
			*list = []string{}
		}
	}
	return mustJSON(h)
}

// ErrHello says that an answer to connect makes no sense.
var ErrHello = errors.New("the gateway's greeting makes no sense")

// ParseHello reads the payload of the answer. Gateways that say less are believed to
// hold to the limits of this package.
func ParseHello(payload []byte) (Hello, error) {
	var h Hello
	if len(payload) > 0 && json.Unmarshal(payload, &h) != nil {
		return Hello{}, ErrHello
	}
	if h.Policy.TickIntervalMS <= 0 || h.Policy.TickIntervalMS > time.Hour.Milliseconds() {
		h.Policy.TickIntervalMS = TickInterval.Milliseconds()
	}
	if h.Policy.MaxPayload <= 0 {
		h.Policy.MaxPayload = MaxFrame
	}
	return h, nil
}
