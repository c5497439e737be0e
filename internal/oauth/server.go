package oauth

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// maxBody limits the bodies of requests, in bytes.
const maxBody = 64 << 10

// metadataPath is where the metadata of a resource is, followed by its path (RFC 9728 §3.1).
const metadataPath = "/.well-known/oauth-protected-resource"

// ServerMetadataPath is where the metadata of the authorization server is (RFC 8414 §3).
const ServerMetadataPath = "/.well-known/oauth-authorization-server"

// Register adds the endpoints to a mux, except that for consent.
func (s *Service) Register(mux *http.ServeMux) {
	mux.Handle(metadataPath, s.cors("GET", s.serveResource))
	mux.Handle(metadataPath+"/", s.cors("GET", s.serveResource))
	mux.Handle(ServerMetadataPath, s.cors("GET", s.serveMetadata))
	mux.Handle(TokenPath, s.cors("POST", s.serveToken))
	mux.Handle(RegisterPath, s.cors("POST", s.serveRegister))
	mux.Handle(RevokePath, s.cors("POST", s.serveRevoke))
}

// cors lets web pages of any origin call, which know no more than any other program does: browsers
// send no credentials by themselves here.
func (s *Service) cors(method string, next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
		switch {
		case r.Method == http.MethodOptions:
			h.Set("Access-Control-Allow-Methods", method+", OPTIONS")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Mcp-Protocol-Version")
			h.Set("Access-Control-Max-Age", "86400")
			w.WriteHeader(http.StatusNoContent)
		case r.Method != method && (method != http.MethodGet || r.Method != http.MethodHead):
			h.Set("Allow", method+", OPTIONS")
			s.writeError(w, r, http.StatusMethodNotAllowed, &tokenError{"invalid_request", "this address takes " + method})
		default:
			next(w, r)
		}
	})
}

// MetadataURL returns the address of the metadata of a resource, by its path, for WWW-Authenticate
// (RFC 9728 §5.1); "" if there is no such resource.
func (s *Service) MetadataURL(r *http.Request, path string) string {
	origin := s.Origin(r)
	if origin == "" || resources[path] == "" {
		return ""
	}
	return origin + metadataPath + path
}

// resourceMetadata describes a resource (RFC 9728 §2).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
	Methods  []string `json:"bearer_methods_supported"`
	Name     string   `json:"resource_name"`
}

func (s *Service) serveResource(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, metadataPath)
	if path == "" || path == "/" {
		path = defaultResource
	}
	scope, origin := resources[path], s.Origin(r)
	if scope == "" || origin == "" {
		s.writeError(w, r, http.StatusNotFound, &tokenError{"not_found", "there is no such resource"})
		return
	}
	s.count(r, "ok")
	w.Header().Set("Cache-Control", "max-age=60")
	writeJSON(w, http.StatusOK, resourceMetadata{Resource: origin + path, Servers: []string{s.Issuer(r)},
		Scopes: []string{scope}, Methods: []string{"header"}, Name: "Patchbay"})
}

// serverMetadata describes the authorization server (RFC 8414 §2).
type serverMetadata struct {
	Issuer        string   `json:"issuer"`
	Authorize     string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Register      string   `json:"registration_endpoint"`
	Revoke        string   `json:"revocation_endpoint"`
	ResponseTypes []string `json:"response_types_supported"`
	ResponseModes []string `json:"response_modes_supported"`
	GrantTypes    []string `json:"grant_types_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	RevokeMethods []string `json:"revocation_endpoint_auth_methods_supported"`
	Scopes        []string `json:"scopes_supported"`
	Documents     bool     `json:"client_id_metadata_document_supported"`
	Issuers       bool     `json:"authorization_response_iss_parameter_supported"`
}

func (s *Service) serveMetadata(w http.ResponseWriter, r *http.Request) {
	issuer := s.Issuer(r)
	if issuer == "" {
		s.writeError(w, r, http.StatusNotFound, &tokenError{"not_found", "this host name is not known"})
		return
	}
	methods := []string{methodNone, methodPost, methodBasic}
	s.count(r, "ok")
	w.Header().Set("Cache-Control", "max-age=60")
	writeJSON(w, http.StatusOK, serverMetadata{
		Issuer: issuer, Authorize: issuer + AuthorizePath, Token: issuer + TokenPath, Register: issuer + RegisterPath,
		Revoke: issuer + RevokePath, ResponseTypes: []string{"code"}, ResponseModes: []string{"query"},
		GrantTypes: []string{"authorization_code", "refresh_token"}, Challenges: []string{"S256"}, Methods: methods,
		RevokeMethods: methods,
		Scopes:        []string{account.ScopeMCP, account.ScopeDangerous, account.ScopeLearn, ScopeOffline},
		Documents:     s.documents != nil, Issuers: true,
	})
}

func (s *Service) serveRegister(w http.ResponseWriter, r *http.Request) {
	var in registration
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		s.writeError(w, r, http.StatusBadRequest, &tokenError{"invalid_client_metadata", "the body is no JSON object of metadata"})
		return
	}
	out, err := s.register(r.Context(), in, registrant(s.Address(r)))
	switch {
	case errors.Is(err, ErrRedirects):
		s.writeError(w, r, http.StatusBadRequest, &tokenError{"invalid_redirect_uri", err.Error()})
	case errors.Is(err, errManyClients):
		w.Header().Set("Retry-After", "3600")
		s.writeError(w, r, http.StatusTooManyRequests, &tokenError{"temporarily_unavailable", err.Error()})
	case err != nil:
		s.fail(w, r, err)
	default:
		s.Logger.InfoContext(r.Context(), "an OAuth client has registered", "client", out.ID, "name", cleanName(out.Name),
			"address", s.Address(r))
		s.count(r, "ok")
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, http.StatusCreated, out)
	}
}

func (s *Service) serveToken(w http.ResponseWriter, r *http.Request) {
	form, ok := s.readForm(w, r)
	if !ok {
		return
	}
	c, ok := s.authenticate(w, r, form)
	if !ok {
		return
	}
	in := tokenRequest{Grant: form.Get("grant_type"), Code: form.Get("code"), Redirect: form.Get("redirect_uri"),
		Verifier: form.Get("code_verifier"), Refresh: form.Get("refresh_token"), Scope: form.Get("scope"),
		Resources: form["resource"]}
	var out tokens
	var err error
	switch in.Grant {
	case "authorization_code":
		out, err = s.exchange(r, &c, in)
	case "refresh_token":
		out, err = s.refresh(r, &c, in)
	case "":
		err = &tokenError{"invalid_request", "grant_type is missing"}
	default:
		err = &tokenError{"unsupported_grant_type", "the grant types are authorization_code and refresh_token"}
	}
	if e, told := errors.AsType[*tokenError](err); told {
		if e.Code == "invalid_grant" {
			s.Guard.Refuse(s.Address(r))
			s.Logger.WarnContext(r.Context(), "an OAuth grant was refused", "client", c.ID, "cause", e.Description,
				"address", s.Address(r))
		}
		s.writeError(w, r, http.StatusBadRequest, e)
		return
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.count(r, "ok")
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, out)
}

func (s *Service) serveRevoke(w http.ResponseWriter, r *http.Request) {
	form, ok := s.readForm(w, r)
	if !ok {
		return
	}
	c, ok := s.authenticate(w, r, form)
	if !ok {
		return
	}
	k, err := s.revoke(r.Context(), &c, form.Get("token"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if k.ID != "" && k.Revoked.IsZero() {
		s.Revoked(r.Context(), k)
	}
	s.count(r, "ok")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

// readForm returns the parameters in the body of a request. It has responded if there are none.
func (s *Service) readForm(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	form, invalid := url.ParseQuery(string(body))
	if kind != "application/x-www-form-urlencoded" || err != nil || invalid != nil {
		s.writeError(w, r, http.StatusBadRequest, &tokenError{"invalid_request",
			"the body has to be application/x-www-form-urlencoded"})
		return nil, false
	}
	for name, values := range form {
		if len(values) > 1 && name != "resource" {
			s.writeError(w, r, http.StatusBadRequest, &tokenError{"invalid_request", "a parameter is there more than once"})
			return nil, false
		}
	}
	return form, true
}

// authenticate identifies the client of a request (RFC 6749 §2.3.1). It has responded if there is
// none.
func (s *Service) authenticate(w http.ResponseWriter, r *http.Request, form url.Values) (store.OAuthClient, bool) {
	id, secret := form.Get("client_id"), form.Get("client_secret")
	if user, password, basic := r.BasicAuth(); basic {
		u, err1 := url.QueryUnescape(user)
		p, err2 := url.QueryUnescape(password)
		if err1 == nil && err2 == nil && (id == "" || id == u) {
			id, secret = u, p
		} else {
			id = ""
		}
	}
	c, err := s.Store.OAuth.Client(r.Context(), id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		s.fail(w, r, err)
		return c, false
	}
	if err == nil && (c.SecretHash == "" ||
		subtle.ConstantTimeCompare([]byte(seal.Hash(secret)), []byte(c.SecretHash)) == 1) {
		return c, true
	}
	tooMany := s.Guard.Refuse(s.Address(r))
	s.Logger.WarnContext(r.Context(), "an OAuth client was refused", "client", fmt.Sprintf("%.200s", id), "address", s.Address(r))
	if tooMany {
		w.Header().Set("Retry-After", "60")
		s.writeError(w, r, http.StatusTooManyRequests, &tokenError{"temporarily_unavailable", "too many refused requests; wait a minute"})
		return c, false
	}
	if r.Header.Get("Authorization") != "" {
		w.Header().Set("WWW-Authenticate", `Basic realm="patchbay"`)
	}
	s.writeError(w, r, http.StatusUnauthorized, &tokenError{"invalid_client", "the client is not known, or its secret is wrong; register again"})
	return c, false
}

// fail responds to an error that is not the client's fault.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	s.Logger.ErrorContext(r.Context(), "an OAuth request failed", "path", r.URL.Path, "error", err)
	w.Header().Set("Retry-After", "2")
	s.writeError(w, r, http.StatusServiceUnavailable, &tokenError{"temporarily_unavailable", "not now; try again in a moment"})
}

// writeError responds to a request that is refused.
func (s *Service) writeError(w http.ResponseWriter, r *http.Request, status int, e *tokenError) {
	s.count(r, e.Code)
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, status, e)
}

// count counts a request by what came of it: "ok", or the code of the error.
func (s *Service) count(r *http.Request, outcome string) {
	endpoint, ok := strings.CutPrefix(r.URL.Path, "/oauth/")
	if !ok {
		endpoint = "metadata"
	}
	s.requests.WithLabelValues(endpoint, outcome).Inc()
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(v) //nolint:errcheck // the client has disconnected
}
