package api_test

import (
	"archive/zip"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/store"
)

// record stores a recorded turn of bob's lamp.
func (h *testServer) record(turn string) {
	h.t.Helper()
	err := h.Store.Traces.Finish(h.t.Context(), store.Trace{Turn: turn, Bot: h.bobsBot.Number, Owner: h.bob.ID,
		Channel: "xiaozhi", Outcome: "done", At: time.Now()}, nil)
	if err == nil {
		err = h.Store.Recordings.Add(h.t.Context(), store.Recording{Turn: turn, Device: h.lamp.Number,
			Expires: time.Now().Add(time.Hour), Question: "is it raining", Answer: "No.",
			QuestionLength: time.Second, AnswerLength: time.Second},
			store.RecordedSound{Question: []byte("asked"), Answer: []byte("answered")})
	}
	if err == nil {
		err = h.Store.Calls.Add(h.t.Context(), []store.Call{{ID: "call of " + turn, At: time.Now(), Person: h.bob.ID,
			Turn: turn, Tool: "look_outside", Outcome: "done"}})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestRecordings checks that only a device's owner, and the operator of the machine, can have
// conversations recorded, and hear and delete what is.
func TestRecordings(t *testing.T) {
	h := newTestServer(t)
	set := `{"settings":{"record":"7"}}`
	h.failing(http.StatusForbidden, "only the owner", h.admin, "PATCH", "/lamp/voice", set)
	h.failing(http.StatusNotFound, "", h.operator, "PATCH", "/lamp/voice", set)
	h.ok(new(control.DeviceVoice), h.bobs, "PATCH", "/lamp/voice", set)
	h.ok(new(control.DeviceVoice), h.admin, "PATCH", "/lamp/voice", `{"settings":{"speed":"1.5"}}`) // the rest
	events, err := h.Store.AdminEvents.Newest(t.Context(), "", 9)
	if err != nil || !slices.ContainsFunc(events, func(e store.AdminEvent) bool {
		return e.Action == control.EventDeviceRecording && e.Name == "bob" && strings.HasSuffix(e.About, ": 7")
	}) {
		t.Errorf("the journal has %+v (%v)", events, err)
	}

	h.record("one")
	for _, key := range []string{h.bobs, h.local} {
		var list control.Recordings
		h.ok(&list, key, "GET", "/lamp/recordings?text=RAIN", "")
		if list.Days != 7 || list.Usage != (store.RecordingUsage{Turns: 1, Bytes: 13}) || len(list.Recordings) != 1 {
			t.Errorf("%+v", list)
		}
		d := answered[control.TurnDetail](h, key, "GET", "turns/one", "")
		if d.Recording == nil || d.Question != "is it raining" || !d.Recorded {
			t.Errorf("%+v", d)
		}
		if status, sound := h.at(key, "GET", "turns/one/sound/question", ""); status != http.StatusOK || sound != "asked" {
			t.Errorf("%d %s", status, sound)
		}
	}
	if status, _ := h.at(h.bobs, "GET", "turns/one/sound/cough", ""); status != http.StatusNotFound {
		t.Errorf("%d for a part that no turn has", status)
	}
	for _, part := range []string{"/recordings", "/recordings/export"} {
		h.failing(http.StatusForbidden, "only the owner", h.admin, "GET", "/lamp"+part, "")
		h.failing(http.StatusNotFound, "", h.operator, "GET", "/lamp"+part, "")
	}
	h.failing(http.StatusForbidden, "only the owner", h.admin, "DELETE", "/lamp/recordings", "")
	if d := answered[control.TurnDetail](h, h.admin, "GET", "turns/one", ""); d.Recording != nil || d.Question != "" {
		t.Errorf("an administrator reads %+v", d)
	}
	for _, key := range []string{h.admin, h.operator} {
		if status, sound := h.at(key, "GET", "turns/one/sound/answer", ""); status != http.StatusNotFound {
			t.Errorf("%d %s", status, sound)
		}
	}
	h.checkArchive()
	var gone control.RemovedRecordings
	if h.ok(&gone, h.bobs, "DELETE", "/lamp/recordings", ""); gone.Removed != 1 {
		t.Errorf("%+v", gone)
	}
	if d := answered[control.TurnDetail](h, h.bobs, "GET", "turns/one", ""); d.Recording != nil || d.Question != "" {
		t.Errorf("after that, the turn is %+v", d)
	}
	h.record("two")
	if f := answered[control.Forgotten](h, h.bobs, "DELETE", "records?said=true", ""); f.Recordings != 1 {
		t.Errorf("%+v", f)
	}
}

// checkArchive reads the archive of bob's lamp.
func (h *testServer) checkArchive() {
	h.t.Helper()
	a := h.do(h.bobs, "GET", "/lamp/recordings/export", "")
	z, err := zip.NewReader(strings.NewReader(a.body), int64(len(a.body)))
	if err != nil {
		h.t.Fatalf("%v: %d %s", err, a.status, a.body)
	}
	var text strings.Builder
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			h.t.Fatal(err)
		}
		text.WriteString(f.Name + ": ")
		if _, err := io.Copy(&text, r); err != nil {
			h.t.Fatal(err)
		}
	}
	for _, want := range []string{"-question.ogg: asked", "-answer.ogg: answered", "conversations.json: [",
		`"question": "is it raining"`, `"answer": "No."`, "look_outside"} {
		if !strings.Contains(text.String(), want) {
			h.t.Errorf("the archive lacks %q: %s", want, text.String())
		}
	}
}
