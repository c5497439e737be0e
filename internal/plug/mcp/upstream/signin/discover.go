package signin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// resourceDocument says where tokens for a server are to be had (RFC 9728 §2).
type resourceDocument struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// Server is what an authorization server says about itself (RFC 8414 §2).
type Server struct {
	Issuer          string   `json:"issuer"`
	Authorize       string   `json:"authorization_endpoint"`
	Token           string   `json:"token_endpoint"` //nolint:gosec // an address
	Register        string   `json:"registration_endpoint,omitempty"`
	Revoke          string   `json:"revocation_endpoint,omitempty"`
	Scopes          []string `json:"scopes_supported,omitempty"`
	Methods         []string `json:"token_endpoint_auth_methods_supported,omitempty"`
	Challenges      []string `json:"code_challenge_methods_supported,omitempty"`
	ClientDocuments bool     `json:"client_id_metadata_document_supported,omitempty"`
	SendsIssuer     bool     `json:"authorization_response_iss_parameter_supported,omitempty"`
}

// Discovery is where and how one signs in to a tool server.
type Discovery struct {
	// Resource is the identifier of the tool server, exactly as it publishes it (RFC 8707).
	Resource string
	// Scopes are those that the tool server knows.
	Scopes []string
	Server Server
	// Guessed means that there are no documents at all, and the endpoints are where the revision of
	// 2025-03-26 has them. Most such servers want a token that people paste.
	Guessed bool
}

// discoverAny finds out where one signs in to the tool server at an address that has answered with
// a challenge, as a person or as a machine. Errors are for the owner.
func discoverAny(ctx context.Context, c *http.Client, address string, ch Challenge) (Discovery, error) {
	at, err := url.Parse(address)
	if err != nil || at.Host == "" {
		return Discovery{}, explain(errors.New("the address is not a web address"))
	}
	d, err := discover(ctx, c, at, ch)
	if err != nil {
		return d, explain(err)
	}
	return d, nil
}

// Discover finds out where a person signs in to the tool server.
func Discover(ctx context.Context, c *http.Client, address string, ch Challenge) (Discovery, error) {
	d, err := discoverAny(ctx, c, address, ch)
	if err == nil {
		if err = d.checkConsent(address); err != nil {
			err = explain(err)
		}
	}
	return d, err
}

// checkConsent validates what only people need.
func (d *Discovery) checkConsent(address string) error {
	at, err := url.Parse(address)
	if err != nil {
		return err
	}
	if !d.Guessed && !slices.Contains(d.Server.Challenges, "S256") {
		return errors.New("the authorization server does not support PKCE with S256")
	}
	return checkAddress("authorization_endpoint", d.Server.Authorize, at)
}

func discover(ctx context.Context, c *http.Client, at *url.URL, ch Challenge) (Discovery, error) {
	doc, err := readResource(ctx, c, at, ch.Metadata)
	switch {
	case err != nil:
		return Discovery{}, err
	case doc == nil:
		return discoverOld(ctx, c, at)
	case len(doc.Servers) == 0:
		return Discovery{}, errors.New("it names no authorization server")
	}
	d := Discovery{Resource: doc.Resource, Scopes: usableScopes(doc.Scopes)}
	if err := checkAddress("the address of the authorization server", doc.Servers[0], at); err != nil {
		return d, err
	}
	s, err := readServer(ctx, c, at, doc.Servers[0])
	if err != nil {
		return d, err
	}
	if s == nil {
		return d, errors.New("the authorization server does not describe itself")
	}
	d.Server = *s
	return d, nil
}

// readResource reads the document about a tool server, from where its challenge says, else from the
// two well-known addresses (RFC 9728 §3.1). It returns nil if there is none.
func readResource(ctx context.Context, c *http.Client, at *url.URL, named string) (*resourceDocument, error) {
	const wellKnown = "/.well-known/oauth-protected-resource"
	root := &url.URL{Scheme: at.Scheme, Host: at.Host, Path: wellKnown}
	places := []string{root.String()}
	if path := strings.TrimRight(at.Path, "/"); path != "" {
		places = slices.Insert(places, 0, root.JoinPath(path).String())
	}
	if named != "" {
		if err := checkAddress("resource_metadata", named, at); err != nil {
			return nil, err
		}
		places = slices.Insert(places, 0, named)
	}
	for _, place := range places {
		var doc resourceDocument
		err := get(ctx, c, place, &doc)
		if isAbsent(err) || place != named && errors.Is(err, errNotJSON) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !covers(doc.Resource, at) {
			return nil, fmt.Errorf("it is about another server, %s", doc.Resource)
		}
		return &doc, nil
	}
	return nil, nil
}

// covers reports whether a resource is the tool server at an address: the same origin, and the same
// path or one above it. A token for another one must not be asked for (RFC 9728 §3.3).
func covers(resource string, at *url.URL) bool {
	u, err := url.Parse(resource)
	if err != nil || u.Fragment != "" || u.User != nil || !strings.EqualFold(u.Scheme, at.Scheme) ||
		!strings.EqualFold(u.Host, at.Host) || u.RawQuery != "" && u.RawQuery != at.RawQuery {
		return false
	}
	above := strings.TrimRight(u.Path, "/") + "/"
	return strings.HasPrefix(strings.TrimRight(at.Path, "/")+"/", above)
}

// readServer reads the metadata of an authorization server (RFC 8414 §3, and the specification's
// order of addresses). It returns nil if there are none.
func readServer(ctx context.Context, c *http.Client, at *url.URL, issuer string) (*Server, error) {
	for _, place := range serverDocuments(issuer) {
		var s Server
		err := get(ctx, c, place, &s)
		if isAbsent(err) || errors.Is(err, errNotJSON) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// One slash at the end is forgiven, since tool servers name their authorization servers
		// without care. From here on the server's own spelling counts, byte for byte.
		if strings.TrimSuffix(s.Issuer, "/") != strings.TrimSuffix(issuer, "/") {
			return nil, fmt.Errorf("the metadata of the authorization server %s names another issuer, %s", issuer,
				s.Issuer)
		}
		return &s, s.check(at)
	}
	return nil, nil
}

// check validates the endpoints.
func (s *Server) check(at *url.URL) error {
	err := checkAddress("token_endpoint", s.Token, at)
	if err == nil && s.Register != "" {
		err = checkAddress("registration_endpoint", s.Register, at)
	}
	if checkAddress("revocation_endpoint", s.Revoke, at) != nil { // one can sign in without it
		s.Revoke = ""
	}
	s.Scopes = usableScopes(s.Scopes)
	return err
}

// serverDocuments returns where the metadata of an authorization server may be (2026-07-28
// basic/authorization, "Authorization Server Metadata Discovery").
func serverDocuments(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	root, path := &url.URL{Scheme: u.Scheme, Host: u.Host}, strings.Trim(u.Path, "/")
	const oauth, openID = ".well-known/oauth-authorization-server", ".well-known/openid-configuration"
	if path == "" {
		return []string{root.JoinPath(oauth).String(), root.JoinPath(openID).String()}
	}
	return []string{root.JoinPath(oauth, path).String(), root.JoinPath(openID, path).String(),
		root.JoinPath(path, openID).String()}
}

// discoverOld is for servers of the revision of 2025-03-26, which are their own authorization
// servers and need not describe themselves.
func discoverOld(ctx context.Context, c *http.Client, at *url.URL) (Discovery, error) {
	origin := &url.URL{Scheme: at.Scheme, Host: at.Host}
	d := Discovery{Resource: (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String()}
	s, err := readServer(ctx, c, at, origin.String())
	if err != nil {
		return d, err
	}
	if s == nil {
		d.Guessed = true
		s = &Server{Issuer: origin.String(), Authorize: origin.JoinPath("authorize").String(),
			Token: origin.JoinPath("token").String(), Register: origin.JoinPath("register").String()}
	}
	d.Server = *s
	return d, nil
}
