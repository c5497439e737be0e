package upstream

import (
	"encoding/json"
	"net/url"
	"path"
	"strings"
)

// A connection serves all programs of its owner, and what a server asks for outside of a call
// belongs to none of them. Servers ask for roots there: after the handshake, or when they like.
// They get the folders that the owner has granted, or none. If the owner has granted some, they get
// the same during calls: a server that keeps the answer would otherwise use the folders of one
// program for the calls of another (2025-11-25 client/roots).

// maxRoots limits the folders of an upstream.
const maxRoots = 64

// checkRoots returns an error if a root is not the address of a folder.
func (s *Settings) checkRoots() error {
	for i, root := range s.Roots {
		u, err := url.Parse(root)
		if err != nil || i == maxRoots || u.Scheme != "file" || u.Host != "" || !strings.HasPrefix(u.Path, "/") ||
			u.RawQuery != "" || u.Fragment != "" || len(root) > maxURI {
			return msgRoots.Errorf(root, maxRoots)
		}
	}
	return nil
}

// roots returns the answer to roots/list that the owner has granted, or nil.
func (s *Settings) roots() json.RawMessage {
	if len(s.Roots) == 0 {
		return nil
	}
	type root struct {
		URI  string `json:"uri"`
		Name string `json:"name"`
	}
	list := make([]root, len(s.Roots))
	for i, uri := range s.Roots {
		u, _ := url.Parse(uri) // validated
		list[i] = root{uri, path.Base(u.Path)}
	}
	raw, _ := encode(map[string]any{"roots": list})
	return raw
}
