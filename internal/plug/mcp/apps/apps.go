// Package apps has pages that show results of our own tools inside the programs that call them (MCP
// Apps): a card for reviews of Learn, the controls of a board, and a picture of its camera.
//
// A page is one HTML text that loads nothing. It runs in a sandbox of the program, the host, and
// calls tools by messages to it, so it can do nothing that the program's key may not do.
//
// Comments cite the specification of MCP Apps, revision 2026-01-26, by section: it is
// specification/2026-01-26/apps.mdx in github.com/modelcontextprotocol/ext-apps.
package apps

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"patchbay/internal/i18n"
)

const (
	// Extension is the name under which clients declare that they show pages ("Client<>Server
	// Capability Negotiation").
	Extension = "io.modelcontextprotocol/ui"
	// MIME is the type of the pages ("UI Resource Format").
	MIME = "text/html;profile=mcp-app"
	// Prefix begins the addresses of the pages.
	Prefix = "ui://patchbay/"
)

// ResourceMeta is the _meta of every page: it needs no other server, and looks best with a border
// ("UI Resource Format").
const ResourceMeta = `{"ui":{"csp":{"connectDomains":[],"resourceDomains":[],"frameDomains":[],"baseUriDomains":[]},"prefersBorder":true}}`

// View is a kind of page; its name is a part of the page's address.
type View string

// The views.
const (
	Learn  View = "learn"
	Board  View = "board"
	Camera View = "camera"
)

// Title is the name of the view for people.
func (v View) Title() string { return titles[v] }

var titles = map[View]string{Learn: "Review card", Board: "Board controls", Camera: "Camera picture"}

// Of returns the view that shows results of a tool, given the kind of its provider and its name
// there, and what the tool does in the view. The view is empty for tools without one.
func Of(provider, name string) (v View, role string) {
	switch provider {
	case "learn":
		if role = learnTools[name]; role != "" {
			return Learn, role
		}
	case "xiaozhi":
		if role = boardTools[name]; role != "" {
			return Board, role
		}
		if strings.Contains(name[strings.LastIndexByte(name, '.')+1:], "photo") {
			return Camera, "photo"
		}
	}
	return "", ""
}

// learnTools are Learn's tools with a view.
var learnTools = map[string]string{"next_review": "next", "reveal_answer": "reveal", "submit_review": "submit"}

// boardTools are the tools of boards with a view (xiaozhi-esp32 main/mcp_server.cc,
// McpServer::AddCommonTools).
var boardTools = map[string]string{
	"self.get_device_status": "status", "self.audio_speaker.set_volume": "volume",
	"self.screen.set_brightness": "brightness", "self.screen.set_theme": "theme",
}

//go:embed page.html style.css bridge.js learn.js board.js camera.js
var files embed.FS

func file(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(b)
}

// config is what the script of a page gets from the server.
type config struct {
	Title string            `json:"title"`
	Tools map[string]string `json:"tools"` // names by role; only those that the reader may use
	// Texts are the translations of the page's texts, by language.
	Texts map[i18n.Lang]map[i18n.Message]string `json:"texts"`
}

// Page returns the HTML of a view. Tools are the names under which its reader may call the tools of
// the view, by their roles; title is what it shows, such as the name of a board, or empty.
func Page(v View, title string, tools map[string]string) string {
	c := config{Title: title, Tools: tools, Texts: map[i18n.Lang]map[i18n.Message]string{}}
	for _, lang := range i18n.Languages() {
		if lang == i18n.English {
			continue
		}
		c.Texts[lang] = map[i18n.Message]string{}
		for _, m := range append(texts[v], commonTexts...) {
			c.Texts[lang][m] = m.In(lang)
		}
	}
	data, err := json.Marshal(c) // it escapes <, so that the data cannot end its element
	if err != nil {
		panic(err) // strings only
	}
	style, script := file("style.css"), "\"use strict\";\n"+file("bridge.js")+file(string(v)+".js")
	// Everything the page may do is named here again, for hosts with wider rules of their own.
	policy := fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; img-src data:; base-uri 'none'; form-action 'none'",
		hash(script), hash(style))
	return strings.NewReplacer("{{title}}", v.Title(), "{{policy}}", policy, "{{style}}", style, "{{script}}", script,
		"{{config}}", string(data)).Replace(file("page.html"))
}

// hash returns the source expression of a Content-Security-Policy for one script or style.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// commonTexts are the texts of every page, and texts those of a view. The scripts use them as keys.
var commonTexts = []i18n.Message{
	i18n.Message("Waiting for the tool…"),
	i18n.Message("The call was cancelled."),
	i18n.Message("The buttons cannot call tools in this program. Ask in the conversation instead."),
}

var texts = map[View][]i18n.Message{
	Learn: {
		i18n.Message("Question"),
		i18n.Message("Answer"),
		i18n.Message("Show the answer"),
		i18n.Message("How well did you know it?"),
		i18n.Message("Again"),
		i18n.Message("Hard"),
		i18n.Message("Good"),
		i18n.Message("Easy"),
		i18n.Message("Left today"),
		i18n.Message("Nothing is left to review now."),
		i18n.Message("Look again"),
	},
	Board: {
		i18n.Message("Volume"),
		i18n.Message("Brightness"),
		i18n.Message("Theme"),
		i18n.Message("Light"),
		i18n.Message("Dark"),
		i18n.Message("Battery"),
		i18n.Message("Charging"),
		i18n.Message("Network"),
		i18n.Message("Ask the board again"),
	},
	Camera: {
		i18n.Message("Question about the picture"),
		i18n.Message("Take another picture"),
		i18n.Message("The board sent no picture."),
		i18n.Message("Picture of the board's camera"),
	},
}
