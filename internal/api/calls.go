package api

import "patchbay/internal/control"

// Operations.
var (
	Calls      = define("GET /api/v1/calls", "List tool calls, newest first", (*control.Service).Calls)
	Turns      = define("GET /api/v1/turns", "List turns, newest first", (*control.Service).Turns)
	TurnRecord = define("GET /api/v1/turns/{turn}", "Return a turn with its tool calls", (*control.Service).TurnRecord)
	Stats      = define("GET /api/v1/stats", "Return the numbers of turns and failures of the last day, week or month, and of connected devices of the last day", (*control.Service).Stats)
	Forget     = define("DELETE /api/v1/records", "Permanently delete conversation content, turns, or arguments of tool calls", (*control.Service).Forget)
	Keys       = define("GET /api/v1/keys", "List keys, newest first", (*control.Service).Keys)
	AddKey     = define("POST /api/v1/keys", "Create a key; its secret is returned only once", (*control.Service).AddKey)
	Key        = define("GET /api/v1/keys/{key}", "Return a key", (*control.Service).Key)
	ChangeKey  = define("PATCH /api/v1/keys/{key}", "Update the rules of a key", (*control.Service).ChangeKey)
	RevokeKey  = define("DELETE /api/v1/keys/{key}", "Revoke a key", (*control.Service).RevokeKey)

	Grants            = define("GET /api/v1/oauth/grants", "List the programs that were let in by OAuth, newest first", (*control.Service).Grants)
	RevokeGrant       = define("DELETE /api/v1/oauth/grants/{grant}", "End the access of a program", (*control.Service).RevokeGrant)
	OAuthClients      = define("GET /api/v1/oauth/clients", "List the programs that administrators have added for OAuth", (*control.Service).OAuthClients)
	AddOAuthClient    = define("POST /api/v1/oauth/clients", "Add a program that cannot register itself; its secret is returned only once", (*control.Service).AddOAuthClient)
	RemoveOAuthClient = define("DELETE /api/v1/oauth/clients/{client}", "Remove a program, and end its access", (*control.Service).RemoveOAuthClient)
)

// recordOperations adds the operations on records.
func (s *Server) recordOperations() {
	s.operate(Calls, Turns, TurnRecord, Stats, Forget)
}

// keyOperations adds the operations on keys of programs.
func (s *Server) keyOperations() {
	s.operate(Keys, AddKey, Key, ChangeKey, RevokeKey)
	s.operate(Grants, RevokeGrant, OAuthClients, AddOAuthClient, RemoveOAuthClient)
}
