package tools_test

import (
	"net/http"
	"strings"
	"testing"
)

// A tool gets a name and texts on its page, and its old address still leads there.
func TestReword(t *testing.T) {
	r := newRig(t)
	ada := r.SignedInAs(r.Person)
	p := ada.Post("/tools/lamp_set/words", "name", "bad name", "title", "", "description", "Kept <text>.")
	if p.Status != http.StatusUnprocessableEntity {
		t.Errorf("%d", p.Status)
	}
	has(t, p, "cannot be the name of a tool", "Kept &lt;text&gt;.", "<details class=\"card\" open")
	p = ada.Post("/tools/lamp_set/words", "name", "lights", "title", "Lights", "description", "One.\r\nTwo.")
	if !strings.HasSuffix(p.Path, "/tools/lights") {
		t.Fatalf("%s %d", p.Path, p.Status)
	}
	has(t, p, "<code>lights</code>", "<code>lamp_set</code>", "Lights", "One.\nTwo.", "Set the lamp", "Dims it.",
		"As the server has it")
	has(t, ada.Get("/tools/lamp_set"), "<code>lights</code>")
	p = ada.Get("/tools?q=lamp_set")
	has(t, p, "/tools/lights", "Found: 1.")
	p = ada.Post("/tools/lights/rule", "rule", "deny")
	has(t, p, "denied", "<code>lights</code>")
	has(t, ada.Get("/tools/rules"), "lamp_set")
	p = ada.Post("/tools/lights/words", "back", "1")
	if !strings.HasSuffix(p.Path, "/tools/lamp_set") {
		t.Errorf("%s", p.Path)
	}
	has(t, p, "Set the lamp")
	lacks(t, p, "lights", "As the server has it")
}
