package signin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/upstream"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	// pendingLife is how long a person may take to sign in.
	pendingLife = 10 * time.Minute
	// maxSteps is how often a person may be asked to grant the same rights.
	maxSteps = 3
	// maxUnanswered is how many sign-ins in a row may come to nothing before this installation
	// registers itself anew: the server may have forgotten it, and said so to the person only.
	maxUnanswered = 3
	// maxClients limits the registrations that are kept of one upstream, whose server may name a
	// new issuer each time.
	maxClients = 10
	// maxConflicts is how often a change is tried again because another instance has made one.
	maxConflicts = 8
)

// What an upstream needs from its owner.
const (
	NeedNothing = ""
	NeedSignIn  = "sign_in" // for the first time
	NeedAgain   = "again"   // the server no longer accepts the earlier sign-in
	NeedOut     = "out"     // the owner has signed out
	NeedRights  = "rights"  // the sign-in does not suffice
	NeedFinal   = "final"   // nor does another one
	// NeedSettings means that nobody has to sign in, but the server refuses this installation.
	NeedSettings = "settings"
)

// Errors for the owner of an upstream.
const (
	msgNoUpstream = i18n.Message("Only an upstream that is reached by a web address, and has no token set, can be signed in to.")
	msgOver       = i18n.Message("This sign-in has ended or was begun anew. Begin again.")
	msgStranger   = i18n.Message("Somebody else has begun this sign-in, so nothing was taken over.")
	msgFinal      = i18n.Message("Although its owner has signed in several times, the server still demands rights that were not granted: %s")
	msgSignIn     = i18n.Message("The server wants its owner to sign in.")
	msgAgain      = i18n.Message("The server no longer accepts the sign-in.")
	msgOut        = i18n.Message("Its owner has signed out of the server.")
	msgYouFinal   = i18n.Message("Although you have signed in several times, the server still demands rights that were not granted: %s")
	msgYouSignIn  = i18n.Message("The server wants you to sign in.")
	msgYouOut     = i18n.Message("You have signed out of the server.")
	msgRights     = i18n.Message("The server demands more rights, which another sign-in can grant: %s.")
)

// Options configure a [Service].
type Options struct {
	Store *store.DB
	Box   *seal.Box
	// Identity returns who this installation is for a browser that uses it at an origin, which may
	// be empty.
	Identity func(origin string) Identity
	// Link returns the address of an upstream's page.
	Link func(upstream int64) string
	// Dial connects for the upstreams of untrusted people.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Instance identifies this process.
	Instance string
	Logger   *slog.Logger
	Now      func() time.Time // nil means time.Now
}

// Service signs people in to tool servers. It is safe for concurrent use, and several instances may
// serve one installation.
type Service struct {
	Options
	anywhere, guarded *http.Client
}

// New returns a service.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Service{Options: o, anywhere: Client(nil)}
	s.guarded = s.anywhere
	if o.Dial != nil {
		s.guarded = Client(o.Dial)
	}
	return s
}

// Target is an upstream to sign in to, for a person.
type Target struct {
	Number int64
	Person string
	// Owner is the owner of the upstream, if that is not the person. All who sign in to it use the
	// registrations that are kept with the owner's sign-in; tokens are each person's own.
	Owner     string
	Settings  upstream.Settings
	Untrusted bool
}

func (s *Service) client(t *Target) *http.Client {
	if t.Untrusted {
		return s.guarded
	}
	return s.anywhere
}

// isMember reports whether the person is not the owner of the upstream.
func (t *Target) isMember() bool { return t.Owner != "" && t.Owner != t.Person }

// keeper returns the target whose record has the registrations.
func (t *Target) keeper() *Target {
	if !t.isMember() {
		return t
	}
	of := *t
	of.Person = t.Owner
	return &of
}

// record is what is known of a sign-in. It is stored sealed.
type record struct {
	URL       string                  `json:"url"` // of the upstream; a record of another address is void
	Clients   map[string]Registration `json:"clients,omitempty"`
	Grant     *Grant                  `json:"grant,omitempty"`
	Pending   *Pending                `json:"pending,omitempty"`
	Challenge Challenge               `json:"challenge"` // the last one
	Need      string                  `json:"need,omitempty"`
	Steps     int                     `json:"steps,omitempty"` // sign-ins for the rights of Challenge
	// Login identifies the credentials of a machine, and Failed is why it gets no token.
	Login  string  `json:"login,omitempty"`
	Failed *failed `json:"failed,omitempty"`
}

// load reads the record of a target.
func (s *Service) load(ctx context.Context, t *Target) (record, store.UpstreamSignIn, error) {
	empty := record{URL: t.Settings.URL, Login: t.login()}
	row, err := s.Store.UpstreamSignIns.Find(ctx, t.Number, t.Person)
	if errors.Is(err, store.ErrNotFound) {
		return empty, store.UpstreamSignIn{Upstream: t.Number, Person: t.Person}, nil
	}
	if err != nil {
		return empty, row, err
	}
	plain, err := s.Box.Open(row.Sealed)
	if err != nil {
		return empty, row, err
	}
	var r record
	if err := json.Unmarshal([]byte(plain), &r); err != nil {
		return empty, row, err
	}
	if r.URL != t.Settings.URL { // tokens and registrations belong to the address
		return empty, row, nil
	}
	if r.Login != empty.Login { // so do tokens and failures to the credentials
		empty.Clients = r.Clients
		return empty, row, nil
	}
	return r, row, nil
}

// errUnchanged ends a change without writing.
var errUnchanged = errors.New("nothing is to be changed")

// change changes the record of a target. The function may be called again, with what another
// instance has written meanwhile. If told is set, running instances take over what has changed.
func (s *Service) change(ctx context.Context, t *Target, told bool, f func(*record) error) (record, error) {
	for try := 0; ; try++ {
		r, row, err := s.load(ctx, t)
		if err != nil {
			return r, err
		}
		err = f(&r)
		if errors.Is(err, errUnchanged) {
			return r, nil
		}
		if err != nil {
			return r, err
		}
		if row.State = ""; r.Pending != nil && !r.Pending.Taken {
			row.State = r.Pending.State
		}
		plain, err := json.Marshal(r)
		if err != nil {
			return r, err
		}
		row.Sealed = s.Box.Seal(string(plain))
		row.Connects = r.Grant != nil || r.Need == NeedAgain // then calls say what is to be done
		if err = s.Store.UpstreamSignIns.Save(ctx, row, told); !errors.Is(err, store.ErrExists) || try == maxConflicts {
			return r, err
		}
	}
}

// CanSignIn reports whether settings are those of an upstream that one may sign in to.
func CanSignIn(s *upstream.Settings) bool { return s.URL != "" && s.SignsIn() }

// Start begins a sign-in by a person, and returns where the person consents.
func (s *Service) Start(ctx context.Context, t Target, person, origin string) (string, error) {
	if !CanSignIn(&t.Settings) {
		return "", msgNoUpstream.Errorf()
	}
	if t.Settings.IsMachine() {
		return "", msgByItself.Errorf()
	}
	r, _, err := s.load(ctx, &t)
	if err != nil {
		return "", err
	}
	kept, _, err := s.load(ctx, t.keeper())
	if err != nil {
		return "", err
	}
	asked := r.Challenge
	if asked.Metadata == "" { // a member signs in before a connection is refused
		asked.Metadata = kept.Challenge.Metadata
	}
	c := s.client(&t)
	d, err := Discover(ctx, c, t.Settings.URL, asked)
	if err != nil {
		return "", err
	}
	id := s.Identity(origin)
	id.ID, id.Secret = t.Settings.ClientID, t.Settings.ClientSecret
	unanswered := 0
	if r.Pending != nil && !r.Pending.Taken {
		if unanswered = r.Pending.Unanswered + 1; unanswered >= maxUnanswered {
			forgetClient(&kept, d.Server.Issuer, r.Pending.Client.ID)
			unanswered = 0
		}
	}
	client, err := register(ctx, c, &d.Server, id, kept.Clients)
	if err != nil {
		return "", err
	}
	var granted []string
	if (r.Need == NeedRights || r.Need == NeedFinal) && r.Grant != nil {
		granted = r.Grant.Scopes
	}
	state := seal.NewToken(32)
	p := &Pending{Person: person, State: seal.Hash(state), Verifier: seal.NewToken(32), Redirect: client.Redirect,
		Resource: d.Resource, Scopes: wantedScopes(&d, r.Challenge, granted), Server: d.Server,
		Until: s.Now().Add(pendingLife), Client: client, Unanswered: unanswered}
	address, err := p.address(client.ID, state)
	if err != nil {
		return "", err
	}
	if t.isMember() {
		if _, err := s.change(ctx, t.keeper(), false, func(r *record) error {
			if was := r.Clients[d.Server.Issuer]; was.ID == client.ID && was.Redirect == client.Redirect {
				return errUnchanged
			}
			r.keepClient(d.Server.Issuer, client)
			return nil
		}); err != nil {
			return "", err
		}
	}
	_, err = s.change(ctx, &t, false, func(r *record) error {
		if r.Pending = p; !t.isMember() {
			r.keepClient(d.Server.Issuer, client)
		}
		return nil
	})
	return address, err
}

func (r *record) keepClient(issuer string, client Registration) {
	if r.Clients == nil || len(r.Clients) >= maxClients && r.Clients[issuer].ID == "" {
		r.Clients = map[string]Registration{}
	}
	r.Clients[issuer] = client
}

// clientOf returns who this installation was when it got a grant.
func (r *record) clientOf(g *Grant) Registration {
	if g.Client.ID == "" {
		return r.Clients[g.Issuer]
	}
	return g.Client
}

// forgetClient forgets how this installation has registered itself at an issuer, as a client that
// the issuer no longer knows.
func forgetClient(r *record, issuer, id string) {
	if c := r.Clients[issuer]; c.Kind == kindDynamic && c.ID == id {
		delete(r.Clients, issuer)
	}
}

// forgetSharedClient is forgetClient for the registrations that a member of an upstream uses.
func (s *Service) forgetSharedClient(ctx context.Context, t *Target, issuer, id string) error {
	if !t.isMember() {
		return nil
	}
	_, err := s.change(ctx, t.keeper(), false, func(r *record) error {
		if r.Clients[issuer].ID != id {
			return errUnchanged
		}
		forgetClient(r, issuer, id)
		return nil
	})
	return err
}

// Answered returns the upstream whose sign-in has led to an address, or to its query, and the
// person whose sign-in it is.
func (s *Service) Answered(ctx context.Context, address string) (number int64, person string, err error) {
	q, err := answerOf(address)
	if err != nil {
		return 0, "", err
	}
	row, err := s.Store.UpstreamSignIns.ByState(ctx, seal.Hash(q.Get("state")))
	if errors.Is(err, store.ErrNotFound) {
		return 0, "", msgOver.Errorf()
	}
	return row.Upstream, row.Person, err
}

// answerOf returns the parameters of the address to which a sign-in has led.
func answerOf(address string) (url.Values, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return nil, msgNoCode.Errorf()
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil || q.Get("state") == "" || len(q["state"]) != 1 {
		return nil, msgNoCode.Errorf()
	}
	return q, nil
}

// Finish takes the answer to a sign-in: the address to which it has led. The person has to be the
// one who began it; a sign-in that the operator began may be finished by its owner too. Only the
// first answer counts.
func (s *Service) Finish(ctx context.Context, t Target, person, address string) error {
	q, err := answerOf(address)
	if err != nil {
		return err
	}
	var p *Pending
	_, err = s.change(ctx, &t, false, func(r *record) error {
		p = r.Pending
		switch {
		case p == nil || p.Taken || p.State != seal.Hash(q.Get("state")) || s.Now().After(p.Until):
			return msgOver.Errorf()
		case p.Person != person && (p.Person != "" || person != t.Person):
			return msgStranger.Errorf()
		}
		p.Taken = true // the state is good for one answer
		return nil
	})
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // a browser that leaves must not lose the code
	g, err := s.exchange(ctx, &t, p, q)
	if err != nil {
		_, errSave := s.change(ctx, &t, false, func(r *record) error {
			if r.Pending == nil || r.Pending.Verifier != p.Verifier {
				return errUnchanged
			}
			if r.Pending = nil; isUnknownClient(err) {
				forgetClient(r, p.Server.Issuer, p.Client.ID)
			}
			return nil
		})
		if isUnknownClient(err) {
			errSave = errors.Join(errSave, s.forgetSharedClient(ctx, &t, p.Server.Issuer, p.Client.ID))
		}
		return errors.Join(err, errSave)
	}
	var old *Grant
	_, err = s.change(ctx, &t, true, func(r *record) error {
		if r.Pending == nil || r.Pending.Verifier != p.Verifier { // signed out, or begun anew, meanwhile
			return msgOver.Errorf()
		}
		old = r.revocable()
		r.Grant, r.Pending = g, nil
		if r.Steps++; r.Need != NeedRights {
			r.Steps = 1
		}
		r.Need = NeedNothing
		return nil
	})
	if err != nil {
		s.revoke(ctx, &t, g)
		return err
	}
	s.Logger.InfoContext(ctx, "signed in to a tool server", "upstream", t.Number, "issuer", g.Issuer)
	s.revoke(ctx, &t, old)
	return nil
}

// exchange checks the answer to a sign-in, and exchanges its code.
func (s *Service) exchange(ctx context.Context, t *Target, p *Pending, q url.Values) (*Grant, error) {
	code, err := p.answer(q)
	if err != nil {
		return nil, err
	}
	g, err := p.exchange(ctx, s.client(t), code, s.Now())
	if err != nil {
		return nil, explain(err)
	}
	return g, nil
}

// Forget forgets the tokens of a sign-in, and tells their server if it wants to know.
func (s *Service) Forget(ctx context.Context, t Target) error {
	var old *Grant
	_, err := s.change(ctx, &t, true, func(r *record) error {
		old = r.revocable()
		if t.Settings.IsMachine() {
			r.forgetMachine()
			return nil
		}
		if r.Grant != nil {
			r.Need = NeedOut
		}
		r.Grant, r.Pending, r.Steps = nil, nil, 0
		return nil
	})
	if err == nil {
		s.revoke(ctx, &t, old)
	}
	return err
}

// revocable returns a copy of the grant that knows its client; nil: there is none.
func (r *record) revocable() *Grant {
	if r.Grant == nil {
		return nil
	}
	g := *r.Grant
	g.Client = r.clientOf(&g)
	return &g
}

// revoke withdraws tokens that are not used any more, as well as that goes.
func (s *Service) revoke(ctx context.Context, t *Target, g *Grant) {
	if g == nil || g.Revoke == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	err := s.addKey(t, &g.Client, g.Issuer)
	if err == nil {
		err = g.revoke(ctx, s.client(t))
	}
	if err != nil {
		s.Logger.WarnContext(ctx, "the tokens of a tool server could not be revoked", "upstream", t.Number,
			"error", err)
	}
}
