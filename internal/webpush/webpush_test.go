package webpush

import (
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func decode(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// The example of RFC 8291 §5 and appendix A.
func TestExample(t *testing.T) {
	var s Subscription
	s.Endpoint = "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV"
	s.Keys.P256dh = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
	s.Keys.Auth = "BTBZMqHH6r4Tts7J_aSIgg"
	own, err := ecdh.P256().NewPrivateKey(decode(t, "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := encrypt([]byte("When I grow up, I want to be a watermelon"), &s, own, decode(t, "DGv6ra1nlYgDCS1FRnbzlw"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
	if text := base64.RawURLEncoding.EncodeToString(got); text != want {
		t.Errorf("got %s", text)
	}
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
}

// A push service checks who sends, and answers in its ways.
func TestSend(t *testing.T) {
	key, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	status := http.StatusCreated
	var origin string
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, public, ok := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "vapid t="), ", k=")
		parts := strings.Split(token, ".")
		if !ok || len(parts) != 3 || r.Header.Get("TTL") != "3600" || r.Header.Get("Content-Encoding") != "aes128gcm" {
			t.Errorf("headers %v", r.Header)
			return
		}
		var claims struct {
			Aud, Sub string
			Exp      int64
		}
		if err := json.Unmarshal(decode(t, parts[1]), &claims); err != nil || claims.Aud != origin ||
			claims.Sub != "mailto:ada@example.org" || time.Until(time.Unix(claims.Exp, 0)) > 24*time.Hour {
			t.Errorf("claims %+v, %v", claims, err)
		}
		if mine, err := PublicKey(key); public != mine || err != nil {
			t.Errorf("key %s, %v", public, err)
		}
		sum, signature := sha256.Sum256([]byte(parts[0]+"."+parts[1])), decode(t, parts[2])
		x, y := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		if !ecdsa.Verify(&key.PublicKey, sum[:], x, y) {
			t.Error("the signature is wrong")
		}
		w.WriteHeader(status)
	}))
	defer service.Close()
	origin = service.URL
	browser, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	to := &Subscription{Endpoint: service.URL + "/secret"}
	if to.Keys.P256dh, err = PublicKey(browser); err != nil {
		t.Fatal(err)
	}
	to.Keys.Auth = base64.RawURLEncoding.EncodeToString(make([]byte, 16))
	s := &Sender{Key: key, Subject: "mailto:ada@example.org", Client: service.Client()}
	send := func(ctx context.Context) error { return s.Send(ctx, to, []byte("hello"), time.Hour, "") }
	if err := send(t.Context()); err != nil {
		t.Error(err)
	}
	for _, status = range []int{404, 410} {
		if err := send(t.Context()); !errors.Is(err, ErrGone) {
			t.Errorf("%d: %v", status, err)
		}
	}
	status = 500
	if err := send(t.Context()); err == nil || errors.Is(err, ErrGone) || strings.Contains(err.Error(), "secret") {
		t.Errorf("500: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := send(cancelled); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "secret") {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Encrypt(make([]byte, MaxMessage+1), to); err == nil {
		t.Error("a message that is too long is encrypted")
	}
	if body, err := Encrypt(make([]byte, MaxMessage), to); err != nil || len(body) != 4096 {
		t.Errorf("%d bytes, %v", len(body), err)
	}
}

func FuzzSubscription(f *testing.F) {
	f.Add("https://push.example.net/x", "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4", "BTBZMqHH6r4Tts7J_aSIgg")
	f.Add("http://localhost", "", "AA")
	f.Fuzz(func(t *testing.T, endpoint, key, auth string) {
		s := Subscription{Endpoint: endpoint}
		s.Keys.P256dh, s.Keys.Auth = key, auth
		_, err := Encrypt([]byte("x"), &s)
		if s.Validate() == nil && err != nil {
			t.Errorf("%+v is valid: %v", s, err)
		}
	})
}
