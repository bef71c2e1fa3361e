import { beforeAll, describe, expect, it } from 'vitest';
import { ApiError } from './api';
import { errorText } from './errors';
import { initI18n, setLanguage } from './i18n';

beforeAll(initI18n);

describe('texts of failures', () => {
  it('tell a refusal with the code -1 from a server that did not answer', () => {
    expect(errorText(new ApiError(-1, 'Current password is incorrect', 400))).toBe('The current password is not right.');
    expect(errorText(new ApiError(-1, 'url must be an http address', 400))).toBe('url must be an http address');
    expect(errorText(new ApiError(-1, 'Failed to fetch', 0))).toMatch(/cannot be reached/);
    expect(errorText(new ApiError(-1, 'timeout', 0))).toMatch(/in time/);
  });

  it('name the limit, the permission and the request', () => {
    expect(errorText(new ApiError('workspace_quota_exceeded', 'Maximum number of bots (3) reached', 409))).toMatch(/limit of 3 /);
    expect(errorText(new ApiError('permission_denied', 'Missing Workspace permission: resource.manage', 403))).toMatch(/resource\.manage/);
    expect(errorText(new ApiError('internal_error', 'Internal server error', 500, null, 'req-1'))).toMatch(/\(req-1\)$/);
  });

  it('speak the language of the panel', async () => {
    await setLanguage('zh-Hans');
    expect(errorText(new ApiError('resource_not_found', 'Resource not found', 404))).toMatch(/已不存在/);
    await setLanguage('en-US');
  });
});
