export type SettingsSection = 'workspace' | 'account' | 'models' | 'api' | 'storage';

export const SETTINGS_ACTIONS: Record<string, SettingsSection> = {
  showWorkspaceSettings: 'workspace',
  showAccountSettings: 'account',
  showModelSettings: 'models',
  showApiIntegrationSettings: 'api',
  showStorageAnalysis: 'storage',
};

type SetParams = (update: (current: URLSearchParams) => URLSearchParams, options?: { replace?: boolean }) => void;

export function openSettings(setParams: SetParams, action: string | null) {
  setParams(
    (current) => {
      const next = new URLSearchParams(current);
      if (action) next.set('action', action);
      else next.delete('action');
      return next;
    },
    { replace: true },
  );
}
