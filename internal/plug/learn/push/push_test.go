package push

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/fetch"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/remind"
	"patchbay/internal/problem"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/internal/webpush"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// browser has a subscription at a stand-in push service, and decrypts what it gets.
type browser struct {
	webpush.Subscription
	key  *ecdh.PrivateKey
	auth []byte
}

func newBrowser(t *testing.T, endpoint string) *browser {
	t.Helper()
	key, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{key: key, auth: make([]byte, 16)}
	rand.Read(b.auth) //nolint:errcheck // it does not fail
	b.Endpoint = endpoint
	b.Keys.P256dh = base64.RawURLEncoding.EncodeToString(key.PublicKey().Bytes())
	b.Keys.Auth = base64.RawURLEncoding.EncodeToString(b.auth)
	return b
}

// decrypt is the receiving side of RFC 8291 §3.
func (b *browser) decrypt(body []byte) ([]byte, error) {
	if len(body) < 86 || body[20] != 65 {
		return nil, errors.New("there is no header")
	}
	salt, sender, sealed := body[:16], body[21:86], body[86:]
	theirs, err := ecdh.P256().NewPublicKey(sender)
	if err != nil {
		return nil, err
	}
	shared, err := b.key.ECDH(theirs)
	if err != nil {
		return nil, err
	}
	derive := func(secret, salt []byte, info string, n int) []byte {
		out, bad := hkdf.Key(sha256.New, secret, salt, info, n)
		err = errors.Join(err, bad)
		return out
	}
	secret := derive(shared, b.auth, "WebPush: info\x00"+string(b.key.PublicKey().Bytes())+string(sender), 32)
	block, bad := aes.NewCipher(derive(secret, salt, "Content-Encoding: aes128gcm\x00", 16))
	if err = errors.Join(err, bad); err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	plain, err := gcm.Open(nil, derive(secret, salt, "Content-Encoding: nonce\x00", 12), sealed, nil)
	if err != nil || len(plain) == 0 || plain[len(plain)-1] != 2 {
		return nil, errors.Join(err, errors.New("it is not the last record"))
	}
	return plain[:len(plain)-1], nil
}

// rig is the service with a stand-in push service.
type rig struct {
	*Service
	url string

	mu     sync.Mutex
	status map[string]int // of paths; 0: 201
	got    map[string][]byte
}

func newRig(t *testing.T, o store.Options, client *http.Client) *rig {
	t.Helper()
	r := &rig{status: map[string]int{}, got: map[string][]byte{}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(io.LimitReader(req.Body, 4097))
		r.mu.Lock()
		defer r.mu.Unlock()
		if status := r.status[req.URL.Path]; status != 0 {
			w.WriteHeader(status)
			return
		}
		if err != nil || len(body) > 4096 || req.Header.Get("TTL") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.got[req.URL.Path] = body
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	box, err := seal.New(strings.Repeat("a", 64))
	if err != nil {
		t.Fatal(err)
	}
	db := storetest.Open(t, o)
	for _, person := range []string{"ada", "bob"} {
		if err := db.People.Add(t.Context(), store.Person{ID: person, Name: person, Role: "user", Lang: "en",
			Created: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	if client == nil {
		client = server.Client()
	}
	r.Service = New(Options{Store: db, Box: box, Client: client, Subject: "mailto:ada@example.org"})
	return r
}

// A reminder reaches all browsers of a person, encrypted for each; those that are gone are
// forgotten.
func TestRemind(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		r := newRig(t, o, nil)
		a, b, gone := newBrowser(t, r.url+"/a"), newBrowser(t, r.url+"/b"), newBrowser(t, r.url+"/gone")
		r.status["/gone"] = http.StatusGone
		m := remind.Message{Person: "ada", Lang: i18n.English, Title: "Time to review", Text: "3 to review"}
		if err := r.Remind(t.Context(), "ada", m); !errors.Is(err, errNone) {
			t.Errorf("without a browser: %v", err)
		}
		for _, x := range []*browser{a, gone, b, b} {
			if err := r.Subscribe(t.Context(), "ada", "Firefox on Linux", x.Subscription); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Remind(t.Context(), "ada", m); err != nil {
			t.Fatal(err)
		}
		for path, x := range map[string]*browser{"/a": a, "/b": b} {
			plain, err := x.decrypt(r.got[path])
			var n Notice
			if err != nil || json.Unmarshal(plain, &n) != nil || n.Text != m.Text || n.Title != m.Title || n.Path != "/learn/offline" {
				t.Errorf("%s: %s, %v", path, plain, err)
			}
		}
		list, err := r.Devices(t.Context(), "ada")
		if err != nil || len(list) != 2 || list[0].Sent.IsZero() || strings.Contains(list[0].Sealed, r.url) {
			t.Fatalf("%+v, %v", list, err)
		}
		// The key stays, for another instance too; each person has their own browsers.
		key, err := r.PublicKey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again := New(r.Options)
		if other, err := again.PublicKey(t.Context()); err != nil || other != key {
			t.Errorf("%s, %v", other, err)
		}
		if err := r.Remove(t.Context(), "bob", list[0].ID); !problem.Is(err, problem.NotFound) {
			t.Errorf("bob removes ada's: %v", err)
		}
		if err := r.Subscribe(t.Context(), "bob", "the same browser", b.Subscription); err != nil {
			t.Fatal(err)
		}
		if list, err = r.Devices(t.Context(), "ada"); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		if err := r.Remove(t.Context(), "ada", list[0].ID); err != nil {
			t.Error(err)
		}
		for i := range maxDevices + 3 {
			x := newBrowser(t, r.url+"/many/"+string(rune('a'+i)))
			if err := r.Subscribe(t.Context(), "ada", strings.Repeat("é", 90), x.Subscription); err != nil {
				t.Fatal(err)
			}
		}
		if list, err = r.Devices(t.Context(), "ada"); err != nil || len(list) != maxDevices {
			t.Errorf("%d browsers, %v", len(list), err)
		}
	})
}

// Addresses that browsers could not have are refused, and those of this network are not reached.
func TestGuard(t *testing.T) {
	photos := fetch.New(fetch.Options{})
	r := newRig(t, store.Options{Folder: t.TempDir()},
		&http.Client{Transport: &http.Transport{DialContext: photos.Dial}})
	bad := newBrowser(t, "http://push.example.net/x")
	if err := r.Subscribe(t.Context(), "ada", "x", bad.Subscription); !problem.Is(err, problem.Invalid) {
		t.Errorf("http: %v", err)
	}
	good := newBrowser(t, r.url+"/inside")
	if err := r.Subscribe(t.Context(), "ada", "x", good.Subscription); err != nil {
		t.Fatal(err)
	}
	if sent, err := r.Send(t.Context(), "ada", Notice{Text: "x"}); err == nil || sent != 0 ||
		strings.Contains(err.Error(), "/inside") {
		t.Errorf("%d sent to this machine, %v", sent, err)
	}
	if list, err := r.Devices(t.Context(), "ada"); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}
