package wire

import (
	"slices"
	"strings"
)

// toolName is the pattern of a published tool's name (src/gateway/node-plugin-tool-snapshot.ts,
// NODE_PLUGIN_TOOL_NAME_RE).
var toolName = &pattern{`^[A-Za-z][A-Za-z0-9_-]{0,63}$`, IsValidToolName}

// skillName is the pattern of a published skill's name.
var skillName = &pattern{`^(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$`, func(s string) bool {
	if s == "" || len(s) > 64 || strings.Contains(s, "--") || strings.HasPrefix(s, "-") || strings.HasSuffix(s, "-") {
		return false
	}
	return strings.Trim(s, "-0123456789abcdefghijklmnopqrstuvwxyz") == ""
}}

// bundleHash is the pattern of the hash of a worker's programs.
var bundleHash = &pattern{`^[a-f0-9]{64}$`, func(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}}

// Constructors for the tables below.

func requiredText(name string) field {
	return field{name: name, kind: kindString, required: true, minimum: 1}
}
func optionalText(name string) field  { return field{name: name, kind: kindString, minimum: 1} }
func anyText(name string) field       { return field{name: name, kind: kindString} }
func boolField(name string) field     { return field{name: name, kind: kindBool} }
func intField(name string) field      { return field{name: name, kind: kindInteger} }
func textListField(name string) field { return field{name: name, kind: kindStrings} }
func anyField(name string) field      { return field{name: name} }

// maxLength limits the length of a string.
func (f field) maxLength(most int) field {
	f.maximum = most
	return f
}

// atLeast sets the minimum of a number.
func (f field) atLeast(least int) field {
	f.minimum = least
	return f
}

// makeRequired makes a member required.
func (f field) makeRequired() field {
	f.required = true
	return f
}

// enumField is a string with a list of allowed values.
func enumField(name string, words ...string) field {
	return field{name: name, kind: kindEnum, words: words}
}

func objectField(name string, fields ...field) field {
	return field{name: name, kind: kindObject, shape: &Shape{fields: fields}}
}

// requestFrame is the shape of a request. OpenClaw's newest gateways accept one member more than
// its published schema.
var requestFrame = &Shape{"", []field{
	{name: "type", kind: kindString, required: true, words: []string{TypeRequest}},
	requiredText("id"), requiredText("method"), anyField("params"), anyText("traceparent").maxLength(128),
	anyText("expectedProfileId"),
}}

// The shapes of requests to gateways (packages/gateway-protocol/src/schema/). For members that no
// known client sends, only the names are checked.
var (
	ShapeConnect = &Shape{MethodConnect, []field{
		intField("minProtocol").atLeast(1).makeRequired(), intField("maxProtocol").atLeast(1).makeRequired(),
		objectField("client",
			enumField("id", ClientIDs...).makeRequired(), optionalText("displayName"), requiredText("version"),
			optionalText("buildId").maxLength(96),
			requiredText("platform"), optionalText("deviceFamily"), optionalText("modelIdentifier"),
			optionalText("timeZone").maxLength(64),
			enumField("mode", Modes...).makeRequired(), optionalText("instanceId")).makeRequired(),
		textListField("caps"), textListField("commands"), anyField("computerUse"),
		objectField("workerRuns",
			field{name: "bundleHash", kind: kindString, required: true, minimum: 64, maximum: 64, pattern: bundleHash},
			requiredText("openclawVersion").maxLength(128),
			textListField("protocolFeatures").makeRequired(), intField("bundlePrewarm").atLeast(1)),
		{name: "permissions", kind: kindBoolMap}, anyText("pathEnv"), optionalText("role"), textListField("scopes"),
		objectField("device", requiredText("id"), requiredText("publicKey"), requiredText("signature"),
			intField("signedAt").makeRequired(), requiredText("nonce")),
		objectField("auth", anyText("token"), anyText("bootstrapToken"), anyText("deviceToken"), anyText("password"),
			anyText("approvalRuntimeToken"), anyText("agentRuntimeIdentityToken")),
		anyText("locale"), anyText("userAgent"),
	}}

	ShapeInvoke = &Shape{MethodNodeInvoke, []field{
		requiredText("nodeId"), requiredText("command"), anyField("params"), intField("timeoutMs"),
		requiredText("idempotencyKey"), optionalText("sessionKey"),
		anyText("turnSourceChannel"), anyText("turnSourceTo"), anyText("turnSourceAccountId"),
		{name: "turnSourceThreadId", kind: kindScalar},
	}}
	ShapeInvokeResult = &Shape{MethodInvokeResult, []field{
		requiredText("id"), requiredText("nodeId"), boolField("ok").makeRequired(), anyField("payload"),
		anyText("payloadJSON"), objectField("error", optionalText("code"), optionalText("message")),
	}}
	ShapeInvokeProgress = &Shape{MethodInvokeProgress, []field{
		requiredText("invokeId"), requiredText("nodeId"), intField("seq").makeRequired(),
		anyText("chunk").maxLength(MaxProgress).makeRequired(),
	}}
	ShapeNodeEvent = &Shape{MethodNodeEvent, []field{requiredText("event"), anyField("payload"),
		anyText("payloadJSON")}}
	ShapePluginTools = &Shape{MethodPluginTools, []field{
		{name: "tools", kind: kindList, required: true, shape: &Shape{fields: []field{
			requiredText("pluginId"), {name: "name", kind: kindString, required: true, minimum: 1, maximum: MaxToolName,
				pattern: toolName},
			requiredText("description"), {name: "parameters", kind: kindMap}, optionalText("command"),
			objectField("mcp", requiredText("server"), requiredText("tool")),
		}}},
	}}
	ShapeSkills = &Shape{MethodSkills, []field{
		{name: "skills", kind: kindList, required: true, shape: &Shape{fields: []field{
			{name: "name", kind: kindString, required: true, minimum: 1, maximum: 64, pattern: skillName},
			requiredText("description").maxLength(1024), requiredText("content").maxLength(65536),
		}}},
	}}

	ShapeNodeList       = &Shape{MethodNodeList, nil}
	ShapeNodeDescribe   = &Shape{MethodNodeDescribe, []field{requiredText("nodeId")}}
	ShapeNodeRename     = &Shape{MethodNodeRename, []field{requiredText("nodeId"), requiredText("displayName")}}
	ShapeNodePairList   = &Shape{MethodNodePairList, nil}
	ShapeNodeApprove    = &Shape{MethodNodeApprove, []field{requiredText("requestId")}}
	ShapeNodeReject     = &Shape{MethodNodeReject, []field{requiredText("requestId")}}
	ShapeNodeRemove     = &Shape{MethodNodeRemove, []field{requiredText("nodeId")}}
	ShapeDevicePairList = &Shape{MethodDevicePairList, nil}
	ShapeDeviceApprove  = &Shape{MethodDeviceApprove, []field{requiredText("requestId")}}
	ShapeDeviceReject   = &Shape{MethodDeviceReject, []field{requiredText("requestId")}}
	ShapeDeviceRemove   = &Shape{MethodDeviceRemove, []field{requiredText("deviceId")}}
	ShapeDeviceRename   = &Shape{MethodDeviceRename, []field{requiredText("deviceId"),
		requiredText("label").maxLength(64)}}
	ShapeTokenRotate = &Shape{MethodTokenRotate, []field{requiredText("deviceId"), requiredText("role"),
		textListField("scopes")}}
	ShapeTokenRevoke = &Shape{MethodTokenRevoke, []field{requiredText("deviceId"), requiredText("role")}}
	ShapeSetupCode   = &Shape{MethodSetupCode, []field{optionalText("publicUrl").maxLength(2048),
		boolField("preferRemoteUrl"),
		boolField("includeQr"), enumField("bootstrapProfile", "limited", SetupProfileNode, "voice-node"),
		boolField("joinUrl")}}

	ShapeChatSend = &Shape{MethodChatSend, []field{
		requiredText("sessionKey").maxLength(MaxSessionKey), optionalText("agentId"), optionalText("sessionId"),
		anyText("message").makeRequired(), anyField("intent"), anyText("thinking"),
		anyField("fastMode"), intField("fastAutoOnSeconds").atLeast(1), enumField("queueMode", QueueModes...),
		boolField("deliver"),
		anyText("originatingChannel"), anyText("originatingTo"), anyText("originatingAccountId"),
		anyText("originatingThreadId"), optionalText("replyToId"),
		{name: "attachments", kind: kindList}, {name: "toolBindings", kind: kindMap}, intField("timeoutMs"),
		anyField("systemInputProvenance"),
		anyText("systemProvenanceReceipt"), boolField("suppressCommandInterpretation"), anyField("expectedLeafEntryId"),
		optionalText("expectedSessionRoutingContract"), anyField("expectedPermissionMode"),
		anyField("expectedToolOverrides"), requiredText("idempotencyKey"),
	}}
	ShapeChatAbort = &Shape{MethodChatAbort, []field{
		requiredText("sessionKey"), optionalText("agentId"), optionalText("runId"), boolField("preserveSideRuns"),
	}}
	ShapeChatHistory = &Shape{MethodChatHistory, []field{
		requiredText("sessionKey"), optionalText("agentId"), anyText("cursor"), intField("limit").atLeast(1),
		intField("offset"), intField("pendingBefore").atLeast(1),
		textListField("inputRunIds"), optionalText("messageId"), optionalText("sessionId"),
		intField("maxChars").atLeast(1),
	}}
	ShapeAgent = &Shape{MethodAgent, slices.Concat(
		[]field{
			requiredText("message"), optionalText("agentId"), anyText("provider"), anyText("model"), anyText("to"),
			anyText("replyTo"), anyText("sessionId"), anyText("sessionKey"),
			optionalText("expectedExistingSessionId"), anyText("thinking"), boolField("deliver"),
			{name: "attachments", kind: kindList}, anyText("channel"),
			anyText("replyChannel"), anyText("accountId"), anyText("replyAccountId"), anyText("threadId"),
			anyText("groupId"), anyText("groupChannel"),
			anyText("groupSpace"), intField("timeout"), boolField("bestEffortDeliver"), anyText("lane"),
			optionalText("cwd"), anyText("extraSystemPrompt"),
			anyText("voiceWakeTrigger"), requiredText("idempotencyKey"), optionalText("label").maxLength(512),
		},
		anyFields("cleanupBundleMcpOnRunEnd", "modelRun", "promptMode", "bootstrapContextMode",
			"bootstrapContextRunKind", "acpTurnSource",
			"internalRuntimeHandoffId", "internalExecutionIdentityRetry", "internalExecutionIdentityRecoveryAttempt",
			"execApprovalFollowupExpectedSessionId", "internalEvents", "inputProvenance", "suppressPromptPersistence",
			"sessionEffects",
			"sourceReplyDeliveryMode", "disableMessageTool", "swarmCollector", "swarmOutputSchema",
			"forceRestartSafeTools", "forceCodeModeTools"),
	)}
	ShapeAgentWait  = &Shape{MethodAgentWait, []field{requiredText("runId"), intField("timeoutMs")}}
	ShapeChatInject = &Shape{MethodChatInject, []field{
		requiredText("sessionKey").maxLength(MaxSessionKey), optionalText("agentId"), requiredText("message"),
		anyText("label").maxLength(100),
	}}
	ShapeSessionsList = &Shape{MethodSessionsList, slices.Concat(
		[]field{intField("limit").atLeast(1), intField("offset"), intField("activeMinutes").atLeast(1),
			optionalText("agentId"), anyText("search"), anyText("label")},
		anyFields("archived", "requireLastInteraction", "sortBy", "includeGlobal", "includeUnknown",
			"configuredAgentsOnly", "includeDerivedTitles", "includeLastMessage", "boardFace", "creatorId", "ownerId",
			"ownerFirst", "involvingMe", "involvingProfileId", "includePeople", "spawnedBy",
			"includeActivitySummary"),
	)}
	ShapeSessionDescribe = &Shape{MethodSessionDescribe, []field{
		requiredText("key"), optionalText("agentId"), boolField("includeDerivedTitles"),
		boolField("includeLastMessage"),
	}}
	ShapeSessionPreview = &Shape{MethodSessionPreview, []field{
		textListField("keys").makeRequired(), intField("limit").atLeast(1), intField("maxChars").atLeast(20),
	}}
	ShapeSessionCreate = &Shape{MethodSessionCreate, slices.Concat(
		[]field{optionalText("key"), optionalText("idempotencyKey"), optionalText("agentId"),
			optionalText("label").maxLength(512), optionalText("displayName"), anyText("task"), anyText("message"),
			optionalText("parentSessionKey"), boolField("succeedsParent"), boolField("emitCommandHooks"),
			{name: "attachments", kind: kindList}},
		anyFields("category", "visibility", "titleSource"), anyFields(UnsupportedSessionMembers...),
	)}
	ShapeSessionPatch = &Shape{MethodSessionPatch, slices.Concat(
		[]field{requiredText("key"), optionalText("agentId"), optionalText("expectedSessionId"),
			anyField("label"), boolField("archived"), boolField("pinned"), boolField("unread"),
			anyField("verboseLevel")},
		anyFields("expectedLifecycleRevision", "expectedPermissionMode", "expectedToolOverrides",
			"expectedMarkedUnreadAt"), anyFields(unsupportedPatchMembers...),
	)}
	ShapeSessionReset = &Shape{MethodSessionReset, []field{
		requiredText("key"), optionalText("agentId"), enumField("reason", "new", "reset"),
		optionalText("expectedSessionId"),
	}}
	ShapeSessionDelete = &Shape{MethodSessionDelete, slices.Concat(
		[]field{requiredText("key"), optionalText("agentId"), boolField("deleteTranscript"),
			optionalText("expectedSessionId"), boolField("archivedOnly")},
		anyFields("expectedLifecycleRevision", "expectedSessionUpdatedAt", "emitLifecycleHooks"),
	)}
	ShapeSessionSend = &Shape{MethodSessionSend, []field{
		requiredText("key").maxLength(MaxSessionKey), optionalText("agentId"), anyText("message").makeRequired(),
		anyText("thinking"), {name: "attachments", kind: kindList}, intField("timeoutMs"),
		optionalText("idempotencyKey"),
	}}
	ShapeSessionAbort = &Shape{MethodSessionAbort, []field{
		optionalText("key"), optionalText("runId"), optionalText("agentId"), boolField("clearQueued"),
	}}
	ShapeSessionCompact = &Shape{MethodSessionCompact, []field{
		requiredText("key"), optionalText("agentId"), intField("maxLines").atLeast(1),
	}}
	ShapeSubscribe = &Shape{MethodSubscribe, []field{requiredText("key"), optionalText("agentId"),
		boolField("includeApprovals")}}
)

// UnsupportedSessionMembers are the members of sessions.create for what bots here do not have: a
// model of one's own choice, working folders, other people's eyes.
var UnsupportedSessionMembers = []string{
	"model", "contextWindow", "thinkingLevel", "fastMode", "permissionMode", "toolOverrides", "incognito", "catalogId",
	"spawnDepth", "fork", "forkFrom", "projectId", "projectGitUrl", "worktree", "worktreeBaseRef", "worktreeName",
	"execNode", "cwd",
}

// unsupportedPatchMembers are those of sessions.patch.
var unsupportedPatchMembers = []string{
	"icon", "color", "category", "boardFace", "statusNote", "attention", "ttlMinutes", "contextWindow",
	"thinkingLevel", "fastMode", "toolOverrides", "traceLevel", "reasoningLevel", "responseUsage",
	"elevatedLevel", "execHost", "execSecurity", "execAsk", "execNode", "permissionMode", "model",
	"completionOwnerSessionKey", "inheritedToolPolicyVersion", "inheritedToolAllow", "inheritedToolDeny",
	"sendPolicy", "groupActivation",
}

func anyFields(names ...string) []field {
	fields := make([]field, len(names))
	for i, name := range names {
		fields[i].name = name
	}
	return fields
}
