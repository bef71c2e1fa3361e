export type I18nText = string | Partial<Record<string, string>> | null | undefined;

export interface Workspace {
  uuid: string;
  instance_uuid: string;
  name: string;
  slug: string;
  type: string;
  status: string;
  source: string;
}
export interface Membership {
  uuid: string | null;
  workspace_uuid: string;
  account_uuid: string | null;
  display_name: string | null;
  email: string | null;
  role: string;
  status: string;
  joined_at: string | null;
  created_at: string | null;
}
export interface WorkspaceEntry {
  workspace: Workspace;
  membership: Membership;
  permissions: string[];
  placement_generation: number;
  plan_name?: string | null;
}
export interface Invitation {
  uuid: string;
  workspace_uuid: string;
  normalized_email: string;
  role: string;
  status: string;
  expires_at: string;
  created_at: string;
}
export interface AccountInfo {
  initialized: boolean;
  password_login_enabled?: boolean;
  space_login_enabled?: boolean;
  authenticated_invitation_acceptance_enabled?: boolean;
}
export interface UserInfo {
  account_uuid: string;
  user: string;
  account_type: 'local' | 'space';
  has_password: boolean;
}
export interface WizardProgress {
  step?: number;
  selected_adapter?: string | null;
  created_bot_uuid?: string | null;
  bot_saved?: boolean;
  selected_runner?: string | null;
}
export interface SystemInfo {
  version: string;
  debug: boolean;
  edition: string;
  allow_modify_login_info?: boolean;
  disable_models_service?: boolean;
  mcp_stdio_enabled?: boolean;
  cloud_service_url?: string;
  limitation?: {
    max_bots?: number;
    max_pipelines?: number;
    max_extensions?: number;
    max_knowledge_bases?: number;
    force_box_session_id_template?: string;
  };
  outbound_ips?: string[];
  invitation_delivery?: { enabled: boolean; provider: string | null };
  wizard_status?: 'none' | 'skipped' | 'completed';
  wizard_progress?: WizardProgress | null;
}

export interface Condition {
  field: string;
  operator: 'eq' | 'neq' | 'in';
  value: unknown;
}
export interface FieldSpec {
  id?: string;
  name: string;
  label?: I18nText;
  description?: I18nText;
  type: string;
  required?: boolean;
  default?: unknown;
  options?: { name: string; label?: I18nText }[];
  show_if?: Condition | null;
  disable_if?: Condition | null;
  disabled_tooltip?: I18nText;
  scopes?: string[];
  accept?: string;
  login_platform?: string;
  url?: string;
  download_filename?: string;
  help_links?: Record<string, string>;
  help_label?: I18nText;
}
export type Values = Record<string, unknown>;

export interface Adapter {
  name: string;
  label: I18nText;
  description?: I18nText;
  icon?: string;
  spec: { categories?: string[]; help_links?: Record<string, string>; config: FieldSpec[] };
}
export interface RoutingRule {
  type: 'launcher_type' | 'launcher_id' | 'message_content' | 'message_has_element';
  operator: string;
  value: string;
  pipeline_uuid: string;
}
export interface Bot {
  uuid: string;
  name: string;
  description: string;
  adapter: string;
  adapter_config?: Values;
  enable: boolean;
  use_pipeline_uuid: string | null;
  use_pipeline_name?: string | null;
  pipeline_routing_rules?: RoutingRule[] | null;
  created_at: string;
  updated_at: string;
  adapter_runtime_values?: {
    bot_account_id?: string | null;
    webhook_url?: string | null;
    webhook_full_url?: string | null;
    extra_webhook_full_url?: string | null;
  };
}
export interface BotHealth {
  state: 'running' | 'stopped' | 'failed' | 'disabled';
  since: string | null;
  last_error: string | null;
  last_message_at: string | null;
  received: number;
  delivered: number;
  failed: number;
  pending: number;
}
export interface Delivery {
  id: string | number;
  session_id: string;
  message_id: string;
  state: 'received' | 'running' | 'sending' | 'sent' | 'failed' | 'discarded';
  attempts: number;
  last_error: string | null;
  received_at: string;
  updated_at: string;
  preview: string;
}
export interface BotLog {
  seq_id: number;
  timestamp: number;
  level: 'debug' | 'info' | 'warning' | 'error';
  text: string;
  images: string[];
  message_session_id: string;
}
export interface BotAdmin {
  id: number;
  launcher_type: string;
  launcher_id: string;
}

export interface Pipeline {
  uuid: string;
  name: string;
  description: string;
  emoji?: string | null;
  is_default: boolean;
  created_at: string;
  updated_at: string;
  config: Record<string, Record<string, Values>>;
}
export interface StageSpec {
  name: string;
  label?: I18nText;
  description?: I18nText;
  config: FieldSpec[];
}
export interface ConfigDoc {
  name: string;
  label?: I18nText;
  stages: StageSpec[];
}

export interface Requester {
  name: string;
  label: I18nText;
  description?: I18nText;
  icon?: string;
  spec: { config?: FieldSpec[]; provider_category?: string; support_type?: string[]; alias?: string | string[] };
}
export interface Provider {
  uuid: string;
  name: string;
  requester: string;
  base_url: string;
  api_keys: string[];
  llm_count?: number;
  embedding_count?: number;
  rerank_count?: number;
}
export type ModelKind = 'llm' | 'embedding' | 'rerank';
export interface Model {
  uuid: string;
  name: string;
  provider_uuid: string;
  provider?: Provider;
  abilities?: string[];
  context_length?: number | null;
  reasoning_config?: { level?: string } | null;
  reasoning_capabilities?: { supported?: boolean; levels?: string[]; source?: string } | null;
  extra_args?: Values;
}
export interface ScannedModel {
  id: string;
  name: string;
  type: string;
  abilities?: string[];
  context_length?: number | null;
  already_added?: boolean;
}

export interface ApiKey {
  id: number;
  uuid: string;
  name: string;
  description: string | null;
  scopes: string[];
  status: string;
  expires_at: string | null;
  last_used_at: string | null;
  created_at: string;
  key?: string;
}

export interface ChainItem {
  type: string;
  [key: string]: unknown;
}
export interface ChatMessage {
  id: number;
  role: 'user' | 'assistant';
  content: string;
  message_chain: ChainItem[];
  timestamp: string;
  is_final: boolean;
  connection_id?: string;
  /** Of an agent's answer in the debug chat: what it called on the way. */
  tool_calls?: ToolActivity[];
}

/** A tool call of a turn, while it runs and when it has ended. */
export interface ToolActivity {
  id: string;
  turn_id?: string;
  name: string;
  source?: string | null;
  arguments: string;
  status: 'running' | 'success' | 'error';
  result?: string;
  duration_ms?: number;
}

/** A row of `GET /tools`. `call_name` is there when another tool has the name. */
export interface ToolRow {
  name: string;
  call_name?: string;
  name_clash?: boolean;
  description: string;
  human_desc: string;
  parameters: Record<string, unknown>;
  source: 'builtin' | 'skill' | 'plugin' | 'mcp';
  source_name: string;
  source_id?: string;
}

export interface MonMessage {
  id: string;
  timestamp: string;
  bot_id: string;
  bot_name: string;
  pipeline_id: string;
  pipeline_name: string;
  message_content: string;
  session_id: string;
  status: string;
  level: string;
  platform: string | null;
  user_id: string | null;
  user_name: string | null;
  runner_name?: string | null;
  variables?: string | null;
  role?: string | null;
}
export interface MonCall {
  id: string;
  timestamp: string;
  model_name: string;
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  duration: number;
  cost: number | null;
  status: string;
  bot_name: string;
  pipeline_name: string;
  session_id: string | null;
  error_message: string | null;
  message_id: string | null;
}
export interface MonTool {
  id: string;
  timestamp: string;
  tool_name: string;
  tool_source: string;
  duration: number;
  status: string;
  session_id: string | null;
  message_id: string | null;
  arguments: string | null;
  result: string | null;
  error_message: string | null;
}
export interface MonSession {
  session_id: string;
  bot_id: string;
  bot_name: string;
  pipeline_name: string;
  message_count: number;
  start_time: string;
  last_activity: string;
  is_active: boolean;
  platform: string | null;
  user_id: string | null;
  user_name: string | null;
}
export interface MonError {
  id: string;
  timestamp: string;
  error_type: string;
  error_message: string;
  bot_name: string;
  pipeline_name: string;
  session_id: string | null;
  stack_trace: string | null;
  message_id: string | null;
}
export interface MonFeedback {
  id: string;
  timestamp: string;
  feedback_type: number;
  feedback_content: string | null;
  bot_name: string;
  pipeline_name: string;
  session_id: string | null;
  user_id: string | null;
  platform: string | null;
  stream_id?: string | null;
  message_id?: string | null;
}
export interface Overview {
  total_messages: number;
  llm_calls: number;
  embedding_calls: number;
  model_calls: number;
  success_rate: number;
  active_sessions: number;
}
export interface MonData {
  overview: Overview;
  messages: MonMessage[];
  llmCalls: MonCall[];
  toolCalls: MonTool[];
  sessions: MonSession[];
  errors: MonError[];
  totalCount: Record<string, number>;
}
export interface TokenStats {
  summary: {
    total_calls: number;
    success_calls: number;
    error_calls: number;
    total_input_tokens: number;
    total_output_tokens: number;
    total_tokens: number;
    total_cost: number;
    avg_tokens_per_call: number;
    avg_duration_ms: number;
    avg_tokens_per_second: number;
    zero_token_success_calls: number;
  };
  by_model: {
    model_name: string;
    calls: number;
    error_calls: number;
    input_tokens: number;
    output_tokens: number;
    total_tokens: number;
    avg_tokens_per_call: number;
    avg_duration_ms: number;
  }[];
  timeseries: { bucket: string; input_tokens: number; output_tokens: number; total_tokens: number; calls: number }[];
  bucket: string;
}
export interface StorageAnalysis {
  generated_at: string;
  cleanup_policy: { uploaded_file_retention_days: number; log_retention_days: number };
  sections: { key: string; path?: string | null; exists: boolean; size_bytes: number; file_count: number }[];
  database: {
    type: string;
    monitoring_counts: Record<string, number>;
    binary_storage: { count: number; size_bytes: number };
  };
  cleanup_candidates: {
    uploaded_files: { key: string; size_bytes: number; modified_at: string }[];
    log_files: { name: string; date: string; size_bytes: number }[];
  };
  tasks?: { total: number; running: number; completed: number; id_index: number } | null;
}
