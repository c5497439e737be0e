package bot

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/settings"
)

func TestSettings(t *testing.T) {
	good, err := device{Identity: new(wire.NewIdentity()), Token: "t"}.text()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Settings)
		wrong  string // part of the error; empty: valid
	}{
		"fine": {func(*Settings) {}, ""},
		"everything": {func(s *Settings) {
			*s = Settings{"wss://127.0.0.1:18789", "t", strings.Repeat("0f", 32), "cook", "p", "low",
				settings.Duration(time.Minute), good}
		}, ""},
		"no url":       {func(s *Settings) { s.URL = "" }, "url is missing"},
		"far and open": {func(s *Settings) { s.URL = "ws://example.com" }, "use wss://"},
		"token":        {func(s *Settings) { s.Token = "x\n" }, "token"},
		"plain fingerprint": {func(s *Settings) { s.TLSFingerprint = strings.Repeat("0f", 32) },
			"has to begin with wss://"},
		"fingerprint":   {func(s *Settings) { s.TLSFingerprint = "0f" }, "tls_fingerprint"},
		"agent":         {func(s *Settings) { s.Agent = "a:b" }, "agent"},
		"prefix":        {func(s *Settings) { s.SessionPrefix = "A" }, "session_prefix"},
		"thinking":      {func(s *Settings) { s.Thinking = "A lot" }, "thinking"},
		"deadline":      {func(s *Settings) { s.Deadline = settings.Duration(time.Second) }, "deadline"},
		"long deadline": {func(s *Settings) { s.Deadline = settings.Duration(time.Hour) }, "deadline"},
		"key":           {func(s *Settings) { s.DeviceIdentity = `{"secret":1}` }, "device_identity"},
		"key of no bytes": {func(s *Settings) { s.DeviceIdentity = `{"device":{"seed":"AAAA","deviceId":"x"}}` },
			"device_identity"},
	} {
		s := Settings{URL: "ws://127.0.0.1:18789"}
		c.change(&s)
		err := s.Validate()
		if (err != nil) != (c.wrong != "") || err != nil && (!strings.Contains(err.Error(), c.wrong) ||
			strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d, err := readDevice(good)
	if err != nil || d.Token != "t" || d.id() == "" {
		t.Errorf("%+v, %v", d, err)
	}
}

// The settings decode in the form in which the hub stores them.
func TestKind(t *testing.T) {
	b := New(Options{})
	t.Cleanup(b.Close)
	k := b.Kind()
	s := k.Settings()
	if err := json.Unmarshal([]byte(`{"url":"ws://127.0.0.1:1","token":"t","deadline":"30s"}`), s); err != nil {
		t.Fatal(err)
	}
	made, err := k.Build(storeBot, s)
	if err != nil || made.(*Bot).settings.deadline() != 30*time.Second || k.Inbound {
		t.Errorf("%v", err)
	}
	if _, err := k.Build(storeBot, new(Settings)); err == nil {
		t.Error("a bot without a gateway")
	}
	if _, ok := b.Status(7); ok {
		t.Error("a bot that nobody has made")
	}
}
