package signin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"patchbay/internal/i18n"
)

// Kinds of a [Registration].
const (
	kindGiven    = "given"    // its owner has registered it by hand
	kindDocument = "document" // its id is the address of a document
	kindDynamic  = "dynamic"  // it registered itself (RFC 7591)
)

// Methods of authentication at the token endpoint.
const (
	methodNone  = "none"
	methodPost  = "client_secret_post"
	methodBasic = "client_secret_basic"
)

const (
	msgMoved    = i18n.Message("The server now sends people to %s to sign in. The client_id of this upstream belongs to %s, so it is not used there. Set client_id and client_secret for the new place, or take them out.")
	msgNoClient = i18n.Message("%s lets no programs register by themselves. Register Patchbay there by hand, with the redirect address %s, and set client_id and, if there is one, client_secret of this upstream.")
)

const (
	// maxClientID and maxSecret limit what a registration is kept of.
	maxClientID = 2 << 10
	maxSecret   = 4 << 10
)

// Registration is who this installation is at an authorization server.
type Registration struct {
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Secret string `json:"secret,omitempty"`
	// Method is how it authenticates at the token endpoint.
	Method string `json:"method"`
	// Redirect is where people come back to; a registration is good for that address only.
	Redirect string `json:"redirect"`

	// assert returns what proves who it is, if the method is private_key_jwt.
	assert func() (string, error)
}

// Identity is what this installation may be at authorization servers.
type Identity struct {
	// ID and Secret were made by hand; empty: they were not.
	ID, Secret string
	// Document is the https address of the document about this installation; empty: it has none
	// that others can read.
	Document string
	// Redirect is where people come back to.
	Redirect string
	// Site is the address of this installation for people; may be empty.
	Site string
}

// register returns who this installation is at a server: as its owner has registered it, by its
// document, as it has registered itself before, or newly (2026-07-28 basic/authorization,
// "Client Registration Approaches"). Known are the registrations by issuer; one is never used at
// another issuer. Errors are for the owner.
func register(ctx context.Context, c *http.Client, s *Server, id Identity,
	known map[string]Registration) (Registration, error) {
	if id.ID != "" {
		for issuer, r := range known {
			if r.Kind == kindGiven && r.ID == id.ID && issuer != s.Issuer {
				return Registration{}, msgMoved.Errorf(s.Issuer, issuer)
			}
		}
		return Registration{Kind: kindGiven, ID: id.ID, Secret: id.Secret, Method: s.method(id.Secret != ""),
			Redirect: id.Redirect}, nil
	}
	if id.Document != "" && s.ClientDocuments {
		return Registration{Kind: kindDocument, ID: id.Document, Method: methodNone, Redirect: id.Redirect}, nil
	}
	if r, ok := known[s.Issuer]; ok && r.Kind == kindDynamic && r.Redirect == id.Redirect {
		return r, nil
	}
	if s.Register == "" {
		return Registration{}, msgNoClient.Errorf(s.Issuer, id.Redirect)
	}
	r, err := registerAt(ctx, c, s, id)
	if isAbsent(err) {
		return r, msgNoClient.Errorf(s.Issuer, id.Redirect)
	}
	if err != nil {
		return r, explain(err)
	}
	return r, nil
}

// method returns how to authenticate at the token endpoint. Without metadata it is
// client_secret_basic (RFC 8414 §2).
func (s *Server) method(hasSecret bool) string {
	switch {
	case !hasSecret:
		return methodNone
	case slices.Contains(s.Methods, methodPost) && !slices.Contains(s.Methods, methodBasic):
		return methodPost
	}
	return methodBasic
}

// clientMetadata describes this installation (RFC 7591 §2).
type clientMetadata struct {
	ID              string   `json:"client_id,omitempty"`
	Name            string   `json:"client_name"`
	URI             string   `json:"client_uri,omitempty"`
	Redirects       []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	Method          string   `json:"token_endpoint_auth_method"`
	ApplicationType string   `json:"application_type"`
}

func newMetadata(id Identity, method string) clientMetadata {
	m := clientMetadata{Name: "Patchbay", URI: id.Site, Redirects: []string{id.Redirect},
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		Method: method, ApplicationType: "native"}
	if strings.HasPrefix(id.Redirect, "https://") {
		m.ApplicationType = "web"
	}
	return m
}

// Document returns the document about this installation, which authorization servers read
// (draft-ietf-oauth-client-id-metadata-document-00).
func Document(id Identity) ([]byte, error) {
	m := newMetadata(id, methodNone)
	m.ID = id.Document
	return json.Marshal(m)
}

// registerAt registers this installation at a server (RFC 7591 §3).
func registerAt(ctx context.Context, c *http.Client, s *Server, id Identity) (Registration, error) {
	method := methodNone
	if len(s.Methods) > 0 && !slices.Contains(s.Methods, methodNone) {
		method = s.method(true)
	}
	body, err := json.Marshal(newMetadata(id, method))
	if err != nil {
		return Registration{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Register, bytes.NewReader(body))
	if err != nil {
		return Registration{}, errors.New("registration_endpoint is not a web address")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	status, text, err := do(c, req)
	if err != nil {
		return Registration{}, err
	}
	if status/100 != 2 {
		return Registration{}, refusal(status, text)
	}
	var got struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		Method string `json:"token_endpoint_auth_method"`
	}
	if json.Unmarshal(text, &got) != nil || got.ID == "" || len(got.ID) > maxClientID || len(got.Secret) > maxSecret {
		return Registration{}, errors.New("the registration has no client_id that can be used")
	}
	if got.Method != "" {
		method = got.Method
	}
	if !slices.Contains([]string{methodNone, methodPost, methodBasic}, method) {
		return Registration{}, fmt.Errorf("it wants authentication by %s", clip(method))
	}
	return Registration{Kind: kindDynamic, ID: got.ID, Secret: got.Secret, Method: method, Redirect: id.Redirect}, nil
}
