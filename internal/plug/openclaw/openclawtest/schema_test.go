package openclawtest

import "testing"

func TestSchema(t *testing.T) {
	s := LoadSchema(t)
	for _, c := range []struct {
		definition, value string
		good              bool
	}{
		{"RequestFrame", `{"type":"req","id":"1","method":"health"}`, true},
		{"RequestFrame", `{"type":"req","id":5,"method":"health"}`, false},
		{"NodeEventParams", `{"event":"e","payloadJSON":"{}"}`, true},
		{"NodeEventParams", `{"event":"e","extra":1}`, false},
		{"ConnectParams",
			`{"minProtocol":4,"maxProtocol":4,"client":{"id":"patchbay","version":"1","platform":"linux","mode":"cli"}}`, false},
		{"ConnectParams",
			`{"minProtocol":4,"maxProtocol":4,"client":{"id":"cli","version":"1","platform":"linux","mode":"cli"}}`,
			true},
	} {
		if err := s.Check(t, c.definition, []byte(c.value)); (err == nil) != c.good {
			t.Errorf("%s as %s: %v", c.value, c.definition, err)
		}
	}
	got := ValidationErrors(t, []Validation{{"RequestFrame", []byte(`{"type":"req","id":5,"method":"health"}`)},
		{"NodeListParams", []byte(`{}`)}})
	if got[0] != "at /id: must be string" || got[1] != "" {
		t.Errorf("%q", got)
	}
}
