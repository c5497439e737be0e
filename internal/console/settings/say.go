package settings

import "patchbay/internal/talk"

var (
	saySettings        = talk.Say{Zh: "设置", En: "Settings"}
	sayTabs            = talk.Say{Zh: "设置的各页", En: "Pages of the settings"}
	sayTabMe           = talk.Say{Zh: "我的账户", En: "You"}
	sayTabBrowsers     = talk.Say{Zh: "登录", En: "Sign-ins"}
	sayTabPeople       = talk.Say{Zh: "成员", En: "People"}
	sayTabBackup       = talk.Say{Zh: "备份", En: "Backup"}
	sayTabInstallation = talk.Say{Zh: "服务器", En: "Server"}
	sayTabActs         = talk.Say{Zh: "管理日志", En: "Admin log"}

	sayYou     = talk.Say{Zh: "关于你", En: "About you"}
	sayName    = talk.Say{Zh: "用户名", En: "Name"}
	sayNameTip = talk.Say{Zh: "登录时用的就是它。", En: "You sign in with it."}
	sayLang    = talk.Say{Zh: "语言", En: "Language"}
	sayLangTip = talk.Say{Zh: "页面的语言，也是机器人没有别的线索时用的语言。",
		En: "Of the pages, and of bots that have nothing else to go by."}
	sayChinese = talk.Say{Zh: "中文", En: "中文 (Chinese)"}
	sayEnglish = talk.Say{Zh: "English（英语）", En: "English"}
	sayZone    = talk.Say{Zh: "时区", En: "Time zone"}
	sayZoneTip = talk.Say{Zh: "如 Asia/Shanghai；留空就用服务器的。按这个设置，现在是 %s。",
		En: "Such as Europe/Berlin; empty means the server's. By this it is %s now."}
	sayZoneHere   = talk.Say{Zh: "用这个浏览器的时区", En: "Use this browser's time zone"}
	saySave       = talk.Say{Zh: "保存", En: "Save"}
	saySaved      = talk.Say{Zh: "已保存。", En: "Saved."}
	sayBrowser    = talk.Say{Zh: "这个浏览器里的外观", En: "How this browser shows the pages"}
	sayTheme      = talk.Say{Zh: "明暗", En: "Light or dark"}
	sayThemeAuto  = talk.Say{Zh: "跟随系统", En: "As the device"}
	sayThemeLight = talk.Say{Zh: "浅色", En: "Light"}
	sayThemeDark  = talk.Say{Zh: "深色", En: "Dark"}
	sayApply      = talk.Say{Zh: "应用", En: "Apply"}

	sayPassword     = talk.Say{Zh: "密码", En: "Password"}
	sayPasswordTold = talk.Say{Zh: "更改密码会让你在其他所有浏览器里退出登录；密钥照常可用。",
		En: "A new password signs you out in all other browsers. Keys go on working."}
	sayNoPassword = talk.Say{Zh: "你没有密码，所以不能在别处登录。请管理员为你设置一个。",
		En: "You have no password, so you cannot sign in elsewhere. An administrator can give you one."}
	sayOld            = talk.Say{Zh: "原来的密码", En: "Old password"}
	sayNew            = talk.Say{Zh: "新密码", En: "New password"}
	sayNewTip         = talk.Say{Zh: "至少 8 个字符。", En: "At least 8 characters."}
	sayAgain          = talk.Say{Zh: "再输入一次新密码", En: "New password, once more"}
	sayChangePassword = talk.Say{Zh: "更改密码", En: "Change the password"}
	sayNotSame        = talk.Say{Zh: "两次输入的新密码不一样，没有作任何改动。",
		En: "The two new passwords are not the same; nothing was changed."}
	sayPasswordChanged = talk.Say{Zh: "密码已更改，其他浏览器都已退出登录。",
		En: "Your password is changed, and all other browsers are signed out."}

	sayBrowsersTold = talk.Say{Zh: "你在这些浏览器里登录着。不认识的，就让它退出，并更改密码。",
		En: "You are signed in here. End what you do not recognise, and change your password."}
	sayThisOne   = talk.Say{Zh: "当前浏览器", En: "this browser"}
	saySince     = talk.Say{Zh: "登录于 %s · 来自 %s", En: "signed in %s · from %s"}
	saySeen      = talk.Say{Zh: "最近使用", En: "Last used"}
	sayEnd       = talk.Say{Zh: "退出", En: "Sign out"}
	sayEndOne    = talk.Say{Zh: "让“%s”退出登录", En: "Sign out %s"}
	sayEndOthers = talk.Say{Zh: "退出其他所有浏览器", En: "Sign out everywhere else"}
	sayEnded     = talk.Say{Zh: "已退出登录；那里打开的页面会在半分钟内停止更新。",
		En: "Signed out; what is open there stops within half a minute."}
	sayOnlyHere     = talk.Say{Zh: "别处没有登录。", En: "You are signed in nowhere else."}
	sayAgentOn      = talk.Say{Zh: "%[2]s 上的 %[1]s", En: "%[1]s on %[2]s"}
	sayAgentUnknown = talk.Say{Zh: "未知的浏览器", En: "Unknown browser"}

	sayAddPerson  = talk.Say{Zh: "添加成员", En: "Add a person"}
	sayPeopleTold = talk.Say{Zh: "每个人只看得到自己的机器人、设备、密钥和知识点。管理员另外管理服务器和成员。",
		En: "Everybody sees their own bots, devices, keys and knowledge points only. Administrators look after the server and the people too."}
	sayRole          = talk.Say{Zh: "角色", En: "Role"}
	sayAdmin         = talk.Say{Zh: "管理员", En: "administrator"}
	sayMember        = talk.Say{Zh: "成员", En: "member"}
	sayAdminTip      = talk.Say{Zh: "管理员：管理服务器、成员和备份", En: "Administrator: looks after the server, people and backups"}
	sayMemberTip     = talk.Say{Zh: "成员：只管自己的东西", En: "Member: has things of their own, and nothing else"}
	sayIsYou         = talk.Say{Zh: "你", En: "you"}
	sayCannotSignIn  = talk.Say{Zh: "没有密码，不能登录", En: "has no password and cannot sign in"}
	sayCreated       = talk.Say{Zh: "开通于", En: "Added"}
	sayFirstPassword = talk.Say{Zh: "初始密码", En: "First password"}
	sayFirstTip      = talk.Say{Zh: "留空就由我们生成一个，只显示一次。请对方登录后更改它。",
		En: "Leave it empty and one is made for you, shown once. They can change it when they have signed in."}
	sayAdd           = talk.Say{Zh: "添加", En: "Add"}
	sayCancel        = talk.Say{Zh: "取消", En: "Cancel"}
	sayAdded         = talk.Say{Zh: "%s 现在有账户了。", En: "%s has an account now."}
	sayPasswordGiven = talk.Say{Zh: "%s 有了新密码，并已在所有浏览器里退出登录。",
		En: "%s has a new password, and is signed out everywhere."}
	sayOnce        = talk.Say{Zh: "请把这个密码交给 %s。它不会再显示。", En: "Give this password to %s. It is not shown again."}
	sayHasBots     = talk.Say{Zh: "机器人", En: "Bots"}
	sayHasDevices  = talk.Say{Zh: "设备", En: "Devices"}
	sayChangeRole  = talk.Say{Zh: "更改角色", En: "Change the role"}
	sayNewPassword = talk.Say{Zh: "设置新密码", En: "Set a new password"}
	sayNewTold     = talk.Say{Zh: "对方会在所有浏览器里退出登录。", En: "They are signed out in all browsers."}
	saySetPassword = talk.Say{Zh: "设置密码", En: "Set the password"}
	sayRemove      = talk.Say{Zh: "移除 %s", En: "Remove %s"}
	sayRemoveTold  = talk.Say{Zh: "连同其全部机器人、设备、密钥、工具服务、知识点和记录一起删除。连接着的设备会断开。这无法撤销；需要的话请先备份。",
		En: "All bots, devices, keys, tool servers, knowledge points and records of theirs go too, and what is connected is disconnected. This cannot be undone; make a backup first if in doubt."}
	sayTypeName     = talk.Say{Zh: "要确认，请输入这个名字：%s", En: "To be sure, type the name: %s"}
	sayRemoveAll    = talk.Say{Zh: "全部删除", En: "Remove everything"}
	sayRemoved      = talk.Say{Zh: "%s 已移除。", En: "%s is removed."}
	sayBackToPeople = talk.Say{Zh: "回到成员", En: "Back to the people"}

	sayDownload     = talk.Say{Zh: "下载备份", En: "Download a backup"}
	sayDownloadTold = talk.Say{Zh: "一个文件，包含全部数据和解开其中凭据的密钥。服务器照常运行。没有口令的话，拿到它的人就能读到一切，请妥善保管。",
		En: "One file with all the data, and the key that opens the credentials in it. The server goes on meanwhile. Without a passphrase, whoever has the file can read everything, so keep it safe."}
	sayNewPassphrase     = talk.Say{Zh: "加密口令（可不填）", En: "Passphrase (optional)"}
	sayNewPassphraseTold = talk.Say{Zh: "至少 %d 个字符。丢了口令，谁也打不开这份备份。",
		En: "At least %d characters. If it is lost, nobody can open the backup."}
	sayPassphraseAgain = talk.Say{Zh: "再输入一次口令", En: "The passphrase once more"}
	sayOtherPassphrase = talk.Say{Zh: "两次输入的口令不一样。", En: "The two passphrases are not the same."}
	sayRestore         = talk.Say{Zh: "恢复备份", En: "Restore a backup"}
	sayRestoreTold     = talk.Say{Zh: "备份会先检查，下次启动服务器时才替换现有数据。现有数据会保留在数据文件夹的 before-restore-… 里。",
		En: "The backup is checked now, and takes the place of the data when the server starts the next time. What is there now stays beside it, in before-restore-… in the data folder."}
	sayPassphrase  = talk.Say{Zh: "口令（如果备份加密了）", En: "Passphrase, if the backup is encrypted"}
	sayFile        = talk.Say{Zh: "备份文件", En: "Backup file"}
	sayUpload      = talk.Say{Zh: "检查并准备恢复", En: "Check it, and restore at the next start"}
	sayUploadUntil = talk.Say{Zh: "请在 %s 前上传；之后需要重新输入密码。",
		En: "Send it before %s; after that your password is needed again."}
	sayUploadLate = talk.Say{Zh: "距离上次输入密码太久。请先重新输入，再选择文件。",
		En: "Too much time has passed since your password. Type it again, then choose the file."}
	sayUploadAgain = talk.Say{Zh: "输入密码", En: "Type the password"}
	sayNoFile      = talk.Say{Zh: "请选择一个备份文件。", En: "Choose the file of a backup."}
	sayHalfFile    = talk.Say{Zh: "文件没有完整传到，没有作任何改动。", En: "The file did not arrive whole; nothing was changed."}
	sayPending     = talk.Say{Zh: "备份已检查并准备好：做于 %s，Patchbay %s。请重启服务器（停止 patchbay serve 再启动），它会在启动时恢复。在那之前的改动不会进入恢复后的数据。", En: "A backup is checked and ready: made %s by Patchbay %s. Restart the server (stop patchbay serve, and start it again); it is restored then. What changes until then is not in the restored data."}
	sayDoNot       = talk.Say{Zh: "不恢复了", En: "Do not restore it"}

	sayHealth     = talk.Say{Zh: "状态", En: "Health"}
	sayReady      = talk.Say{Zh: "一切正常", En: "ready"}
	sayNoStorage  = talk.Say{Zh: "数据库和磁盘都写不进去", En: "neither the database nor the disk takes anything"}
	sayDiskFull   = talk.Say{Zh: "磁盘已满，或几乎没有空间了", En: "the disk is full, or nearly so"}
	sayDiskErrors = talk.Say{Zh: "磁盘报告错误", En: "the disk reports errors"}
	sayStopping   = talk.Say{Zh: "正在停止", En: "stopping"}
	sayDraining   = talk.Say{Zh: "正在排空：设备转到其他实例", En: "draining: its devices go to other instances"}
	sayNoDatabase = talk.Say{Zh: "数据库没有响应", En: "the database does not answer"}
	sayNoBus      = talk.Say{Zh: "与其他实例的连接（NATS）断了", En: "the connection to other instances (NATS) is lost"}
	sayVersion    = talk.Say{Zh: "版本", En: "Version"}
	sayStarted    = talk.Say{Zh: "启动于", En: "Started"}
	sayDatabase   = talk.Say{Zh: "数据库", En: "Database"}
	sayInstance   = talk.Say{Zh: "实例", En: "Instance"}
	sayOthers     = talk.Say{Zh: "其他实例", En: "Other instances"}
	sayAlone      = talk.Say{Zh: "没有", En: "none"}
	sayPublic     = talk.Say{Zh: "外部地址", En: "Address for others"}
	sayNoPublic   = talk.Say{Zh: "没有设置（public_url）；眼镜和云端服务需要它",
		En: "not set (public_url); glasses and services in the cloud need it"}
	saySet     = talk.Say{Zh: "全部设置", En: "All settings"}
	saySetTold = talk.Say{Zh: "设置在配置文件、环境变量和命令行里，重启后生效；密钥不显示。",
		En: "They are in the configuration file, the environment and the command line, and count from the next start. Secrets are not shown."}
	sayMore    = talk.Say{Zh: "更多", En: "More"}
	sayMetrics = talk.Say{Zh: "供 Prometheus 读取的数字：/metrics", En: "Numbers for Prometheus: /metrics"}
	sayOpenAPI = talk.Say{Zh: "API 的 OpenAPI 描述", En: "The API, as OpenAPI"}

	sayActsTold = talk.Say{Zh: "谁更改了账号、密钥、机器人、设备、工具或记录，用哪个密钥，从哪个地址。保留时间与工具调用的记录一样（audit.keep）。",
		En: "Who changed accounts, keys, bots, devices, tools or records, by which key and from which address. It is kept as long as the trail of calls (audit.keep)."}
	sayTrailGood   = talk.Say{Zh: "最新的记录与写入时一致。", En: "The newest rows are as they were written."}
	sayTrailBroken = talk.Say{Zh: "记录在写入后被改动过（问题：%d）。用 patchbay audit verify 查看是哪些。",
		En: "Rows were changed after they were written (problems: %d). See which with patchbay audit verify."}
	sayNoActs     = talk.Say{Zh: "还没有记录", En: "Nothing yet"}
	sayNoActsTold = talk.Say{Zh: "添加成员、更改角色、创建密钥、备份这样的事会记在这里。",
		En: "Adding people, changing roles, making keys and making backups is written down here."}
	sayTerminal      = talk.Say{Zh: "命令行", En: "command line"}
	sayActAdded      = talk.Say{Zh: "添加成员", En: "added a person"}
	sayActRole       = talk.Say{Zh: "更改角色", En: "changed a role"}
	sayActPassword   = talk.Say{Zh: "设置密码", En: "set a password"}
	sayActRemoved    = talk.Say{Zh: "移除成员", En: "removed a person"}
	sayActBackup     = talk.Say{Zh: "做了备份", En: "made a backup"}
	sayActStaged     = talk.Say{Zh: "准备恢复备份", En: "had a backup ready to be restored"}
	sayActDrained    = talk.Say{Zh: "开始排空实例", En: "drained an instance"}
	sayActUndrained  = talk.Say{Zh: "停止排空实例", En: "took a drained instance back"}
	sayActCancelled  = talk.Say{Zh: "取消恢复", En: "called a restore off"}
	sayActSecret     = talk.Say{Zh: "更换了密钥", En: "changed the secret"}
	sayActForgotten  = talk.Say{Zh: "撤掉了旧密钥", En: "dropped the old secret"}
	sayActLost       = talk.Say{Zh: "因密钥丢失换上了新的", En: "replaced a lost secret"}
	sayActKeyMade    = talk.Say{Zh: "创建密钥", En: "made a key"}
	sayActKeyRules   = talk.Say{Zh: "更改密钥的规则", En: "changed the rules of a key"}
	sayActKeyRevoked = talk.Say{Zh: "吊销密钥", En: "revoked a key"}
	sayActDeleted    = talk.Say{Zh: "删除记录", En: "deleted records"}

	sayActSignedIn     = talk.Say{Zh: "登录", En: "signed in"}
	sayActRefused      = talk.Say{Zh: "登录被拒绝", En: "was refused to sign in"}
	sayActProfile      = talk.Say{Zh: "更改个人资料", En: "changed their profile"}
	sayActSignedOut    = talk.Say{Zh: "退出浏览器上的登录", En: "signed out browsers"}
	sayActBotAdded     = talk.Say{Zh: "添加机器人", En: "added a bot"}
	sayActBotChanged   = talk.Say{Zh: "更改机器人", En: "changed a bot"}
	sayActBotRemoved   = talk.Say{Zh: "移除机器人", En: "removed a bot"}
	sayActBotToken     = talk.Say{Zh: "更换机器人的令牌", En: "gave a bot another token"}
	sayActBotInvited   = talk.Say{Zh: "邀请眼镜绑定机器人", En: "invited glasses to a bot"}
	sayActBotUnbound   = talk.Say{Zh: "解绑眼镜", En: "unbound glasses from a bot"}
	sayActBotCut       = talk.Say{Zh: "断开机器人的连接", En: "ended the connections of a bot"}
	sayActUpAdded      = talk.Say{Zh: "添加工具服务器", En: "added a tool server"}
	sayActUpChanged    = talk.Say{Zh: "更改工具服务器", En: "changed a tool server"}
	sayActUpToken      = talk.Say{Zh: "更换工具服务器的令牌", En: "gave a tool server another token"}
	sayActUpRemoved    = talk.Say{Zh: "移除工具服务器", En: "removed a tool server"}
	sayActToolRule     = talk.Say{Zh: "设置工具规则", En: "decided about a tool"}
	sayActDevApproved  = talk.Say{Zh: "批准设备", En: "approved a device"}
	sayActDevChanged   = talk.Say{Zh: "更改设备", En: "changed a device"}
	sayActDevRemoved   = talk.Say{Zh: "移除设备", En: "removed a device"}
	sayActNodeRenamed  = talk.Say{Zh: "重命名节点", En: "renamed a node"}
	sayActNodeRemoved  = talk.Say{Zh: "移除节点", En: "removed a node"}
	sayActPairApproved = talk.Say{Zh: "批准配对请求", En: "approved a pairing request"}
	sayActPairRejected = talk.Say{Zh: "拒绝配对请求", En: "rejected a pairing request"}
	sayActByKey        = talk.Say{Zh: "密钥 %s", En: "key %s"}
)
